"""The settings of pretraining."""

from __future__ import annotations

from albert.settings.fields import (
    ANSWERS,
    DATA,
    FEATURES,
    LONGEST_SEQUENCE,
    MODEL,
    TRAINING,
    Affects,
    redefined,
    setting,
)
from albert.settings.run_settings import KeptCheckpoints, RunSettings


class PretrainingSettings(KeptCheckpoints, RunSettings):
    """The settings of pretraining; the defaults are the reference's."""

    train_batch_size: int = redefined(RunSettings, "train_batch_size", 4096)
    # Batches are counted in --max_eval_steps.
    predict_batch_size: int = redefined(
        RunSettings, "predict_batch_size", 64, affects=Affects.SCORES, aliases=("eval_batch_size",)
    )
    learning_rate: float = redefined(RunSettings, "learning_rate", 0.00176)
    train_steps: int = redefined(RunSettings, "train_steps", 125000, aliases=("num_train_steps",))
    optimizer: str = redefined(RunSettings, "optimizer", "lamb")
    # It also draws the masks of what is scored.
    seed: int = redefined(RunSettings, "seed", 12345, affects=Affects.WEIGHTS | Affects.SCORES)
    input_file: str = setting(
        "",
        "Record files to train on, from `albert pretraining-data`: names or globs, with "
        "commas between. Required to train.",
        DATA,
        Affects.WEIGHTS,
        basic=True,
        path=True,
    )
    eval_file: str = setting(
        "",
        "Record files to score on, likewise. Default: --input_file.",
        DATA,
        Affects.SCORES,
        basic=True,
        path=True,
    )
    do_train: bool = setting(True, "Train on --input_file.", DATA, basic=True)
    do_eval: bool = setting(False, "Score every checkpoint on --eval_file.", DATA, basic=True)
    max_seq_length: int = setting(
        512,
        "Tokens of a sequence, as in the records.",
        FEATURES,
        Affects.FEATURES,
        basic=True,
        lower=5,
        upper=LONGEST_SEQUENCE,
    )
    max_predictions_per_seq: int = setting(
        20,
        "Masked tokens of a sequence at most, as in the records; twice as many as `albert "
        "pretraining-data` was given, if with --do_permutation.",
        FEATURES,
        Affects.FEATURES,
        lower=1,
        upper=LONGEST_SEQUENCE,
    )
    num_warmup_steps: int = setting(
        3125,
        "Steps in which the learning rate rises.",
        TRAINING,
        Affects.WEIGHTS,
        basic=True,
        lower=0,
    )
    start_warmup_step: int = setting(
        0, "The step at which it begins to rise; 0 before.", TRAINING, Affects.WEIGHTS, lower=0
    )
    poly_power: float = setting(
        1.0,
        "Power of the learning rate's decay; 1 for a linear one.",
        TRAINING,
        Affects.WEIGHTS,
        lower=0.0,
    )
    init_from_group0: bool = setting(
        False,
        "Start all groups of layers from the first group of --init_checkpoint.",
        MODEL,
        Affects.WEIGHTS,
    )
    masked_lm_budget: float = setting(
        0.0,
        "Draw masks while training, others every epoch, instead of reading them from the "
        "records: so many masked tokens for every unmasked one. Needs records of "
        "--masked_lm_prob=0, and --spm_model_file or --vocab_file.",
        FEATURES,
        Affects.FEATURES,
        basic=True,
        lower=0.0,
    )
    ngram: int = setting(
        3,
        "Longest run of words of such a mask.",
        FEATURES,
        Affects.FEATURES,
        lower=1,
        upper=LONGEST_SEQUENCE,
    )
    spm_model_file: str | None = setting(
        None,
        "SentencePiece model, for --masked_lm_budget.",
        MODEL,
        Affects.FEATURES,
        basic=True,
        path=True,
    )
    vocab_file: str | None = setting(
        None,
        "WordPiece vocabulary, for --masked_lm_budget.",
        MODEL,
        Affects.FEATURES,
        basic=True,
        path=True,
    )
    max_eval_steps: int = setting(
        100, "Batches of --eval_batch_size to score at most.", ANSWERS, Affects.SCORES, lower=1
    )
