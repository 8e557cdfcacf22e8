"""The flags of pretraining."""

from __future__ import annotations

from albert.settings.encoder_flags import define_optimizer
from albert.settings.flags import (
    ANSWERS,
    DATA,
    FEATURES,
    LONGEST_SEQUENCE,
    MODEL,
    TRAINING,
    Shapes,
    change,
    define,
    define_alias,
)
from albert.settings.run_flags import define_keep_checkpoint_max, define_scoring_while_training

# The reference's defaults where they are others than those of fine-tuning.
_DEFAULTS = {
    "train_batch_size": 4096,
    "predict_batch_size": 64,
    "learning_rate": 0.00176,
    "train_steps": 125000,
}


def define_pretraining_flags() -> None:
    """Defines data, masks and the schedule; to be called after `define_run_flags`."""
    # Before the aliases, which take over what the defaults are then.
    for name, value in _DEFAULTS.items():
        change(name, value)
    # Batches are counted in --max_eval_steps.
    change("predict_batch_size", 64, Shapes.SCORES)
    # It also draws the masks of what is scored.
    change("seed", 12345, Shapes.WEIGHTS | Shapes.SCORES)
    _define_data()
    _define_schedule()
    _define_masks()
    define(ANSWERS, Shapes.SCORES).integer(
        "max_eval_steps", 100, "Batches of --eval_batch_size to score at most.", lower_bound=1
    )
    define_keep_checkpoint_max()
    define_scoring_while_training()


def _define_data() -> None:
    define(DATA, Shapes.WEIGHTS, True).path(
        "input_file",
        None,
        "Record files to train on, from `albert pretraining-data`: names or globs, with commas "
        "between. Required to train.",
    )
    define(DATA, Shapes.SCORES, True).path(
        "eval_file", None, "Record files to score on, likewise. Default: --input_file."
    )
    define(DATA, Shapes.NOTHING, True).switch("do_train", True, "Train on --input_file.")
    define(DATA, Shapes.NOTHING, True).switch(
        "do_eval", False, "Score every checkpoint on --eval_file."
    )
    define(FEATURES, Shapes.FEATURES, True).integer(
        "max_seq_length",
        512,
        "Tokens of a sequence, as in the records.",
        lower_bound=5,
        upper_bound=LONGEST_SEQUENCE,
    )
    define(FEATURES, Shapes.FEATURES).integer(
        "max_predictions_per_seq",
        20,
        "Masked tokens of a sequence at most, as in the records; twice as many as "
        "`albert pretraining-data` was given, if with --do_permutation.",
        lower_bound=1,
        upper_bound=LONGEST_SEQUENCE,
    )


def _define_schedule() -> None:
    define_alias("num_train_steps", "train_steps")
    define_alias("eval_batch_size", "predict_batch_size")
    define(TRAINING, Shapes.WEIGHTS, True).integer(
        "num_warmup_steps", 3125, "Steps in which the learning rate rises.", lower_bound=0
    )
    define(TRAINING, Shapes.WEIGHTS).integer(
        "start_warmup_step", 0, "The step at which it begins to rise; 0 before.", lower_bound=0
    )
    define(TRAINING, Shapes.WEIGHTS).number(
        "poly_power", 1.0, "Power of the learning rate's decay; 1 for a linear one.", lower_bound=0
    )
    define_optimizer("lamb")
    define(MODEL, Shapes.WEIGHTS).switch(
        "init_from_group0",
        False,
        "Start all groups of layers from the first group of --init_checkpoint.",
    )


def _define_masks() -> None:
    define(FEATURES, Shapes.FEATURES, True).number(
        "masked_lm_budget",
        0.0,
        "Draw masks while training, others every epoch, instead of reading them from the records: "
        "so many masked tokens for every unmasked one. Needs records of --masked_lm_prob=0, and "
        "--spm_model_file or --vocab_file.",
        lower_bound=0.0,
    )
    define(FEATURES, Shapes.FEATURES).integer(
        "ngram",
        3,
        "Longest run of words of such a mask.",
        lower_bound=1,
        upper_bound=LONGEST_SEQUENCE,
    )
    define(MODEL, Shapes.FEATURES, True).path(
        "spm_model_file", None, "SentencePiece model, for --masked_lm_budget."
    )
    define(MODEL, Shapes.FEATURES, True).path(
        "vocab_file", None, "WordPiece vocabulary, for --masked_lm_budget."
    )
