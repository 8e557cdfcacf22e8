"""The settings of SQuAD."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from albert.settings.fields import ANSWERS, DATA, FEATURES, TRAINING, Affects, setting
from albert.settings.text_settings import FileSettings
from albert.tables.bad_rows import ERROR, ON_BAD_QUESTION
from albert.tasks.squad import ONE, WHICH_ANSWERS


class SquadSettings(FileSettings, theme=DATA):
    """The settings of both versions of SQuAD."""

    feature_files = {
        "train_feature_file": "train.tf_record",
        "predict_feature_file": "eval.tf_record",
        "predict_feature_left_file": "eval_left.npz",
    }
    described: ClassVar[Sequence[str]]
    described = ("doc_stride", "max_query_length", "n_best_size", "max_answer_length")
    do_train: bool = setting(True, "Train on --train_file.", basic=True)
    do_predict: bool = setting(
        True, "Answer --predict_file with every checkpoint, and score the answers.", basic=True
    )
    train_file: str = setting(
        "",
        "SQuAD JSON file or table (CSV, TSV, JSON Lines) to train on, such as train-v1.1.json.",
        affects=Affects.WEIGHTS,
        basic=True,
        path=True,
    )
    predict_file: str = setting(
        "",
        "SQuAD JSON file or table with questions to answer, such as dev-v1.1.json.",
        affects=Affects.SCORES,
        basic=True,
        path=True,
    )
    on_bad_row: str = setting(
        ERROR,
        "What to do with rows of a table that cannot be used: error ends the run; skip skips "
        "them; first also skips them, but uses the first place of an answer that occurs several "
        "times in its context; lenient also skips them, but searches for an answer that is not at "
        "its place, and ignores differences in spaces, Unicode form and case. Training skips "
        "questions of SQuAD's JSON instead of ending.",
        affects=Affects.FEATURES,
        choices=ON_BAD_QUESTION,
    )
    answers: str = setting(
        ONE,
        "Which answers to train on if a question has several: one is an error; first uses the "
        "first one, and all each different one.",
        affects=Affects.FEATURES,
        choices=WHICH_ANSWERS,
    )
    exact_answers: bool = setting(
        False,
        "With a WordPiece vocabulary, train on exactly the tokens that overlap an answer. By "
        "default, as in Google's code, an answer inside a word is extended to white space.",
        affects=Affects.FEATURES,
    )
    train_feature_file: str | None = setting(
        None,
        "File for the training features. It is reused if it was made from the same input, "
        "otherwise written. Default: train.tf_record in --output_dir.",
        FEATURES,
        path=True,
    )
    predict_feature_file: str | None = setting(
        None,
        "File for the prediction features, reused like --train_feature_file. Default: "
        "eval.tf_record in --output_dir.",
        FEATURES,
        path=True,
    )
    predict_feature_left_file: str | None = setting(
        None,
        "File for the other data that prediction needs, reused like --train_feature_file. Default: "
        "eval_left.npz in --output_dir.",
        FEATURES,
        path=True,
    )
    input_file: str | None = setting(
        None,
        "Folder with a ready-made train.tf_record to use instead of --train_feature_file. If it "
        "has none, one is written to --output_dir.",
        FEATURES,
        path=True,
    )
    doc_stride: int = setting(
        128,
        "Distance between the starts of two windows on a long context, in tokens.",
        FEATURES,
        Affects.FEATURES,
        lower=1,
    )
    max_query_length: int = setting(
        64,
        "Greatest length of a question, in tokens; longer ones are truncated.",
        FEATURES,
        Affects.FEATURES,
        lower=1,
    )
    n_best_size: int = setting(
        20,
        "Number of answers for each question in nbest_predictions.json.",
        ANSWERS,
        Affects.SCORES,
        lower=1,
    )
    max_answer_length: int = setting(
        30, "Greatest length of an answer, in tokens.", ANSWERS, Affects.SCORES, lower=1
    )


class SquadV1Settings(SquadSettings):
    r"""Fine-tunes a model on SQuAD 1.1, answers a file of questions, and scores the answers.

      albert squad questions.csv --model=albert_base_v2
      albert squad --model=albert_base_v2 --train_file=data/squad/train-v1.1.json \
        --predict_file=data/squad/dev-v1.1.json --output_dir=out

    The first command trains on questions of your own, in a table or in SQuAD's JSON, with
    --recipe=auto and a fifth of the contexts for the scores. "albert squad 2.0" does the same on
    SQuAD 2.0, where a question may have no answer.
    Run the same command again to resume a run that was stopped. A finished run ends at once.
    Without --train_file, it scores the checkpoints in --output_dir, or --init_checkpoint if there
    are none.
    """

    head = "SQuAD 1.1"
    described = (*SquadSettings.described, "mask_padding_in_loss")
    mask_padding_in_loss: bool = setting(
        True,
        "Exclude padding from the softmax over positions. The reference includes it, so that its "
        "loss depends on the length of the padding, and keeps all batches at full length.",
        TRAINING,
        Affects.WEIGHTS | Affects.SCORES,
    )


class SquadV2Settings(SquadSettings, theme=ANSWERS, affects=Affects.SCORES):
    r"""Fine-tunes a model on SQuAD 2.0, where a question may have no answer, and scores answers.

      albert squad 2.0 --model=albert_base_v2 --train_file=data/squad/train-v2.0.json \
        --predict_file=data/squad/dev-v2.0.json --output_dir=out

    Run the same command again to resume a run that was stopped. A finished run ends at once.
    Without --train_file, it scores the checkpoints in --output_dir, or --init_checkpoint if there
    are none.
    """

    head = "SQuAD 2.0"
    described = (*SquadSettings.described, "start_n_top", "end_n_top")
    start_n_top: int = setting(
        5, "Number of the most probable starts of an answer to consider.", lower=1
    )
    end_n_top: int = setting(
        5, "Number of the most probable ends to consider for each start.", lower=1
    )
    null_score_diff_threshold: float | None = setting(
        None,
        "Log-odds of no answer above which a question is left unanswered. Default: the value with "
        "the best F1 on --predict_file, or 0 if that file has no answers.",
        basic=True,
    )
    dropout_prob: float = setting(
        0.1,
        "Dropout rate of the layer that predicts whether there is an answer.",
        TRAINING,
        Affects.WEIGHTS,
        lower=0.0,
        upper=0.99,
    )
