"""The settings of SQuAD."""

from __future__ import annotations

from albert.settings.fields import ANSWERS, DATA, FEATURES, TRAINING, Affects, setting
from albert.settings.text_settings import TextSettings


class SquadSettings(TextSettings):
    """What both versions of SQuAD are set by."""

    do_train: bool = setting(True, "Train on --train_file.", DATA, basic=True)
    do_predict: bool = setting(
        True, "Answer --predict_file with every checkpoint and score it.", DATA, basic=True
    )
    train_file: str = setting(
        "",
        "SQuAD JSON to train on, such as train-v1.1.json.",
        DATA,
        Affects.WEIGHTS,
        basic=True,
        path=True,
    )
    predict_file: str = setting(
        "",
        "SQuAD JSON to answer, such as dev-v1.1.json.",
        DATA,
        Affects.SCORES,
        basic=True,
        path=True,
    )
    train_feature_file: str | None = setting(
        None,
        "Training features: read if made from the same input, else written. Default: "
        "train.tf_record in --output_dir.",
        FEATURES,
        path=True,
    )
    predict_feature_file: str | None = setting(
        None,
        "Prediction features, likewise. Default: eval.tf_record in --output_dir.",
        FEATURES,
        path=True,
    )
    predict_feature_left_file: str | None = setting(
        None,
        "What prediction needs besides its features, likewise. Default: eval_left.npz in "
        "--output_dir.",
        FEATURES,
        path=True,
    )
    input_file: str | None = setting(
        None,
        "Folder with a ready train.tf_record, which takes the place of --train_feature_file; "
        "where it has none, one is made in --output_dir.",
        FEATURES,
        path=True,
    )
    trim_batches: bool = setting(
        True,
        "Cut batches to their longest feature, rounded up to 16 tokens: less work, and the "
        "same results but for the masks of dropout.",
        TRAINING,
        Affects.WEIGHTS,
    )
    doc_stride: int = setting(
        128, "Tokens between two windows on a long paragraph.", FEATURES, Affects.FEATURES, lower=1
    )
    max_query_length: int = setting(
        64, "Tokens of a question; the rest is cut off.", FEATURES, Affects.FEATURES, lower=1
    )
    n_best_size: int = setting(
        20, "Answers in nbest_predictions.json a question.", ANSWERS, Affects.SCORES, lower=1
    )
    max_answer_length: int = setting(
        30, "Tokens of an answer at most.", ANSWERS, Affects.SCORES, lower=1
    )


class SquadV1Settings(SquadSettings):
    """The settings of SQuAD 1.1."""

    mask_padding_in_loss: bool = setting(
        True,
        "Leave padding out of the softmax over positions. The reference does not, so that its "
        "loss depends on how far features are padded. --trim_batches needs it.",
        TRAINING,
        Affects.WEIGHTS | Affects.SCORES,
    )


class SquadV2Settings(SquadSettings):
    """The settings of SQuAD 2.0."""

    start_n_top: int = setting(
        5,
        "The likeliest starts of an answer that are considered.",
        ANSWERS,
        Affects.SCORES,
        lower=1,
    )
    end_n_top: int = setting(
        5,
        "The likeliest ends that are considered for each of them.",
        ANSWERS,
        Affects.SCORES,
        lower=1,
    )
    null_score_diff_threshold: float | None = setting(
        None,
        "Log-odds of no answer above which a question is left unanswered. Default: those with "
        "the best F1 on --predict_file; 0 if its answers are not known.",
        ANSWERS,
        Affects.SCORES,
        basic=True,
    )
    dropout_prob: float = setting(
        0.1,
        "Dropout of the layer that tells whether there is an answer.",
        TRAINING,
        Affects.WEIGHTS,
        lower=0.0,
        upper=0.99,
    )
