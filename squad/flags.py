"""The flags of SQuAD, and their checks."""

from __future__ import annotations

import os

from absl import flags

from model_flags import define_text_flags
from runtime.errors import FlagError
from runtime.flags import FLAGS, define_from_scratch, wanted
from squad.examples import check_all_answerable
from squad.feature_files import FeatureOptions
from squad.features import SPECIAL_TOKENS


def define_squad_flags() -> None:
    """Data, features and answers."""
    flags.DEFINE_bool("do_train", True, "Train on --train_file.")
    flags.DEFINE_bool(
        "do_predict", True, "Answer --predict_file with every checkpoint and score it."
    )
    flags.DEFINE_string("train_file", None, "SQuAD JSON to train on, such as train-v1.1.json.")
    flags.DEFINE_string("predict_file", None, "SQuAD JSON to answer, such as dev-v1.1.json.")
    flags.DEFINE_string(
        "train_feature_file",
        None,
        "Training features: read if made from the same input, else written. Default: "
        "train.tf_record in --output_dir.",
    )
    flags.DEFINE_string(
        "predict_feature_file",
        None,
        "Prediction features, likewise. Default: eval.tf_record in --output_dir.",
    )
    flags.DEFINE_string(
        "predict_feature_left_file",
        None,
        "What prediction needs besides its features, likewise. Default: eval_left.npz in "
        "--output_dir.",
    )
    flags.DEFINE_string(
        "input_file",
        None,
        "Folder with a ready train.tf_record, which takes the place of --train_feature_file; "
        "where it has none, one is made in --output_dir.",
    )
    define_text_flags(max_seq_length=384)
    define_from_scratch()
    flags.DEFINE_integer(
        "doc_stride", 128, "Tokens between two windows on a long paragraph.", lower_bound=1
    )
    flags.DEFINE_integer(
        "max_query_length", 64, "Tokens of a question; the rest is cut off.", lower_bound=1
    )
    flags.DEFINE_integer(
        "n_best_size", 20, "Answers in nbest_predictions.json a question.", lower_bound=1
    )
    flags.DEFINE_integer("max_answer_length", 30, "Tokens of an answer at most.", lower_bound=1)
    flags.DEFINE_bool(
        "mask_padding_in_loss",
        True,
        "Leave padding out of the softmax over positions. The reference does not, so that its "
        "loss depends on how far features are padded.",
    )
    flags.DEFINE_bool(
        "trim_batches",
        True,
        "Cut batches to their longest feature, rounded up to 16 tokens: less work, and the same "
        "results but for the masks of dropout. "
        "Needs --mask_padding_in_loss.",
    )


def wanted_tasks() -> tuple[bool, bool]:
    """Whether to train and whether to predict; see `runtime.flags.wanted`.

    Raises:
      FlagError: there is nothing to do, or a file is missing for what was asked for.
    """
    tasks = wanted("do_train", "train_file"), wanted("do_predict", "predict_file")
    if not any(tasks) and not FLAGS.export_dir:
        raise FlagError("nothing to do: give --train_file, --predict_file or --export_dir")
    return tasks


def feature_options() -> FeatureOptions:
    """The flags that shape features."""
    return FeatureOptions(
        FLAGS.max_seq_length, FLAGS.doc_stride, FLAGS.max_query_length, FLAGS.do_lower_case
    )


def check_squad_flags() -> None:
    """Raises a `FlagError` if lengths or files do not fit each other."""
    paths = [training_feature_path(), *prediction_feature_paths()]
    if len(set(map(os.path.abspath, paths))) < len(paths):
        raise FlagError(
            "--train_feature_file, --predict_feature_file and --predict_feature_left_file must be "
            f"different files: {', '.join(paths)}"
        )
    room = FLAGS.max_seq_length - FLAGS.max_query_length - SPECIAL_TOKENS
    if room <= 0:
        raise FlagError(
            f"--max_seq_length {FLAGS.max_seq_length} must be more than --max_query_length "
            f"{FLAGS.max_query_length} + {SPECIAL_TOKENS}"
        )
    if FLAGS.doc_stride > room:
        raise FlagError(
            f"--doc_stride {FLAGS.doc_stride} is more than the {room} tokens of a window beside "
            "the longest question: text would be skipped"
        )


def check_is_v1(do_train: bool, do_predict: bool) -> None:
    """Raises a `UserError` if a file that is to be used is of SQuAD 2.0."""
    for is_wanted, name in ((do_train, "train_file"), (do_predict, "predict_file")):
        if is_wanted:
            check_all_answerable(getattr(FLAGS, name), f"--{name}")


def training_feature_path() -> str:
    """Where the training features are or will be."""
    ready = os.path.join(FLAGS.input_file or "", "train.tf_record")
    if FLAGS.input_file and os.path.exists(ready):
        return ready
    return FLAGS.train_feature_file or os.path.join(FLAGS.output_dir, "train.tf_record")


def prediction_feature_paths() -> tuple[str, str]:
    """Where the prediction features and their left file are or will be."""
    return (
        FLAGS.predict_feature_file or os.path.join(FLAGS.output_dir, "eval.tf_record"),
        FLAGS.predict_feature_left_file or os.path.join(FLAGS.output_dir, "eval_left.npz"),
    )
