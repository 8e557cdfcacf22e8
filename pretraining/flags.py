"""The flags of pretraining, and their checks."""

from __future__ import annotations

from absl import flags

import tokenization
from modeling import AlbertConfig
from pretraining.documents import Encoder
from pretraining.input_pipeline import RecordOptions
from pretraining.masking import Masker, MaskingOptions
from runtime.errors import FlagError, UserError
from runtime.flags import FLAGS, LONGEST_SEQUENCE, define_keep_checkpoint_max, require

# The reference's defaults where they are others than those of fine-tuning.
_DEFAULTS = {
    "train_batch_size": 4096,
    "predict_batch_size": 64,
    "learning_rate": 0.00176,
    "train_steps": 125000,
}
# Flags of fine-tuning without a use here.
_UNUSED = ("num_train_epochs", "warmup_proportion", "export_dir")


def define_pretraining_flags() -> None:
    """Data, masks and the schedule; to be called after `define_run_flags`."""
    # Before the aliases, which take over what the defaults are then.
    for name, value in _DEFAULTS.items():
        FLAGS.set_default(name, value)
    flags.DEFINE_string(
        "input_file",
        None,
        "Record files to train on, from create_pretraining_data.py: names or globs, with commas "
        "between.",
    )
    flags.DEFINE_string(
        "eval_file", None, "Record files to score on, likewise. Default: --input_file."
    )
    flags.DEFINE_bool("do_train", True, "Train on --input_file.")
    flags.DEFINE_bool("do_eval", False, "Score every checkpoint on --eval_file.")
    flags.DEFINE_integer(
        "max_seq_length",
        512,
        "Tokens of a sequence, as in the records.",
        lower_bound=5,
        upper_bound=LONGEST_SEQUENCE,
    )
    flags.DEFINE_integer(
        "max_predictions_per_seq",
        20,
        "Masked tokens of a sequence at most, as in the records; twice as many as "
        "create_pretraining_data.py was given, if with --do_permutation.",
        lower_bound=1,
        upper_bound=LONGEST_SEQUENCE,
    )
    flags.DEFINE_alias("num_train_steps", "train_steps")
    flags.DEFINE_alias("eval_batch_size", "predict_batch_size")
    flags.DEFINE_integer(
        "num_warmup_steps", 3125, "Steps in which the learning rate rises.", lower_bound=0
    )
    flags.DEFINE_integer(
        "start_warmup_step", 0, "The step at which it begins to rise; 0 before.", lower_bound=0
    )
    flags.DEFINE_float(
        "poly_power", 1.0, "Power of the learning rate's decay; 1 for a linear one.", lower_bound=0
    )
    flags.DEFINE_enum("optimizer", "lamb", ["adamw", "lamb"], "What updates the weights.")
    flags.DEFINE_integer(
        "max_eval_steps", 100, "Batches of --eval_batch_size to score at most.", lower_bound=1
    )
    define_keep_checkpoint_max()
    flags.DEFINE_bool(
        "init_from_group0",
        False,
        "Start all groups of layers from the first group of --init_checkpoint.",
    )
    flags.DEFINE_float(
        "masked_lm_budget",
        0.0,
        "Draw masks while training, others every epoch, instead of reading them from the records: "
        "so many masked tokens for every unmasked one. Needs records of --masked_lm_prob=0, and "
        "--spm_model_file or --vocab_file.",
        lower_bound=0.0,
    )
    flags.DEFINE_integer(
        "ngram",
        3,
        "Longest run of words of such a mask.",
        lower_bound=1,
        upper_bound=LONGEST_SEQUENCE,
    )
    flags.DEFINE_string("spm_model_file", None, "SentencePiece model, for --masked_lm_budget.")
    flags.DEFINE_string("vocab_file", None, "WordPiece vocabulary, for --masked_lm_budget.")


def check_pretraining_flags() -> None:
    """Raises a `FlagError` if flags do not fit each other."""
    if not (FLAGS.do_train or FLAGS.do_eval):
        raise FlagError("nothing to do: at least one of --do_train and --do_eval must be true")
    if FLAGS.do_train or not FLAGS.eval_file:
        require("input_file")
    for name in _UNUSED:
        if FLAGS[name].present:
            raise FlagError(
                f"--{name} has no use in pretraining, which has --num_train_steps and "
                "--num_warmup_steps"
            )
    if FLAGS.train_steps < 1:
        raise FlagError(f"--num_train_steps must be positive, not {FLAGS.train_steps}")
    if FLAGS.masked_lm_budget and not (FLAGS.spm_model_file or FLAGS.vocab_file):
        raise FlagError("--masked_lm_budget needs --spm_model_file or --vocab_file")


def record_options(config: AlbertConfig) -> RecordOptions:
    """What the flags say of records.

    Raises:
      UserError: the tokenizer is not that of the model.
    """
    options = RecordOptions(FLAGS.max_seq_length, FLAGS.max_predictions_per_seq, config.vocab_size)
    if not FLAGS.masked_lm_budget:
        return options
    tokenizer = tokenization.FullTokenizer(FLAGS.vocab_file, True, FLAGS.spm_model_file)
    encoder = Encoder(tokenizer, do_lower_case=True)
    if encoder.size != config.vocab_size:
        raise UserError(
            f"{FLAGS.spm_model_file or FLAGS.vocab_file} has {encoder.size} pieces, "
            f"{FLAGS.albert_config_file} a vocab_size of {config.vocab_size}: they must be of the "
            "same model"
        )
    # From masked for every unmasked to masked of all.
    probability = FLAGS.masked_lm_budget / (1.0 + FLAGS.masked_lm_budget)
    masking = MaskingOptions(FLAGS.max_predictions_per_seq, probability, FLAGS.ngram)
    masker = Masker(masking, encoder.mask_id, encoder.size)
    return options._replace(masker=masker, mask_seed=FLAGS.seed)
