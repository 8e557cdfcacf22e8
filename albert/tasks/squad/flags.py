"""The flags of SQuAD."""

from __future__ import annotations

from albert.settings.encoder_flags import define_optimizer, define_text_flags
from albert.settings.flags import (
    ANSWERS,
    DATA,
    FEATURES,
    TRAINING,
    Shapes,
    define,
)
from albert.settings.run_flags import define_from_scratch, define_scoring_while_training


def define_v1_flags() -> None:
    """Defines the flags of SQuAD 1.1; call it after `define_run_flags`."""
    _define_squad_flags()
    define(TRAINING, Shapes.WEIGHTS | Shapes.SCORES).switch(
        "mask_padding_in_loss",
        True,
        "Leave padding out of the softmax over positions. The reference does not, so that its "
        "loss depends on how far features are padded. --trim_batches needs it.",
    )


def define_v2_flags() -> None:
    """Defines the flags of SQuAD 2.0; call it after `define_run_flags`."""
    _define_squad_flags()
    for name, text in (
        ("start_n_top", "The likeliest starts of an answer that are considered."),
        ("end_n_top", "The likeliest ends that are considered for each of them."),
    ):
        define(ANSWERS, Shapes.SCORES).integer(name, 5, text, lower_bound=1)
    define(ANSWERS, Shapes.SCORES, True).number(
        "null_score_diff_threshold",
        None,
        "Log-odds of no answer above which a question is left unanswered. Default: those with the "
        "best F1 on --predict_file; 0 if its answers are not known.",
    )
    text = "Dropout of the layer that tells whether there is an answer."
    define(TRAINING, Shapes.WEIGHTS).number(
        "dropout_prob", 0.1, text, lower_bound=0.0, upper_bound=0.99
    )


def _define_squad_flags() -> None:
    _define_data()
    define_text_flags(max_seq_length=384)
    define_from_scratch()
    define_optimizer("adamw")
    define_scoring_while_training()
    define(TRAINING, Shapes.WEIGHTS).switch(
        "trim_batches",
        True,
        "Cut batches to their longest feature, rounded up to 16 tokens: less work, and the same "
        "results but for the masks of dropout.",
    )
    define(FEATURES, Shapes.FEATURES).integer(
        "doc_stride", 128, "Tokens between two windows on a long paragraph.", lower_bound=1
    )
    define(FEATURES, Shapes.FEATURES).integer(
        "max_query_length", 64, "Tokens of a question; the rest is cut off.", lower_bound=1
    )
    define(ANSWERS, Shapes.SCORES).integer(
        "n_best_size", 20, "Answers in nbest_predictions.json a question.", lower_bound=1
    )
    define(ANSWERS, Shapes.SCORES).integer(
        "max_answer_length", 30, "Tokens of an answer at most.", lower_bound=1
    )


def _define_data() -> None:
    define(DATA, Shapes.NOTHING, True).switch("do_train", True, "Train on --train_file.")
    define(DATA, Shapes.NOTHING, True).switch(
        "do_predict", True, "Answer --predict_file with every checkpoint and score it."
    )
    define(DATA, Shapes.WEIGHTS, True).path(
        "train_file", None, "SQuAD JSON to train on, such as train-v1.1.json."
    )
    define(DATA, Shapes.SCORES, True).path(
        "predict_file", None, "SQuAD JSON to answer, such as dev-v1.1.json."
    )
    define(FEATURES, Shapes.NOTHING).path(
        "train_feature_file",
        None,
        "Training features: read if made from the same input, else written. Default: "
        "train.tf_record in --output_dir.",
    )
    define(FEATURES, Shapes.NOTHING).path(
        "predict_feature_file",
        None,
        "Prediction features, likewise. Default: eval.tf_record in --output_dir.",
    )
    define(FEATURES, Shapes.NOTHING).path(
        "predict_feature_left_file",
        None,
        "What prediction needs besides its features, likewise. Default: eval_left.npz in "
        "--output_dir.",
    )
    define(FEATURES, Shapes.NOTHING).path(
        "input_file",
        None,
        "Folder with a ready train.tf_record, which takes the place of --train_feature_file; "
        "where it has none, one is made in --output_dir.",
    )
