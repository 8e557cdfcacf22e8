"""The settings of RACE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from albert.settings.fields import DATA, FEATURES, TRAINING, Affects, redefined, setting
from albert.tasks.classification.settings import ClassificationSettings


def _feature_file(split: str) -> str | None:
    name = f"{split}.tf_record"
    help = f"Feature file for RACE/{split}, reused or written. Default: {name} in --output_dir."
    return setting(None, help, FEATURES, path=True)


class RaceSettings(ClassificationSettings, theme=DATA):
    r"""Fine-tunes a model on RACE, whose questions about a passage have four options each.

      albert race --data_dir=data --model=albert_base_v2 --output_dir=out

    Run the same command again to resume a run that was stopped. A finished run ends at once.
    """

    feature_files = {
        "train_file": "train.tf_record",
        "eval_file": "dev.tf_record",
        "predict_file": "test.tf_record",
    }
    head = "multiple choice"
    described = ("max_qa_length",)
    data_dir: str = redefined(
        ClassificationSettings,
        "data_dir",
        "",
        help="Folder with RACE/train, RACE/dev and RACE/test. Required.",
    )
    do_train: bool = redefined(ClassificationSettings, "do_train", True)
    do_eval: bool = redefined(ClassificationSettings, "do_eval", True)
    train_steps: int = redefined(ClassificationSettings, "train_steps", 12000, lower=1)
    learning_rate: float = redefined(ClassificationSettings, "learning_rate", 1e-5)
    save_checkpoints_steps: int = redefined(ClassificationSettings, "save_checkpoints_steps", 100)
    warmup_step: int = redefined(ClassificationSettings, "warmup_step", 1000)
    keep_checkpoint_max: int = redefined(
        ClassificationSettings, "keep_checkpoint_max", 5, aliases=("num_keep_checkpoint",)
    )
    task_name: str = setting("race", "Name of the task.", basic=True, choices=("race", "RACE"))
    high_only: bool = setting(
        False, "Use only the questions for high schools.", affects=Affects.FEATURES
    )
    middle_only: bool = setting(
        False, "Use only the questions for middle schools.", affects=Affects.FEATURES
    )
    train_file: str | None = _feature_file("train")
    eval_file: str | None = _feature_file("dev")
    predict_file: str | None = _feature_file("test")
    max_qa_length: int = setting(
        128,
        "Greatest length of a question with an option, in tokens. Longer ones are truncated at the "
        "beginning.",
        FEATURES,
        Affects.FEATURES,
        lower=1,
    )
    dropout_prob: float = setting(
        0.1, "Dropout rate of the head.", TRAINING, Affects.WEIGHTS, lower=0.0, upper=0.99
    )

    def head_defaults(self, about: Mapping[str, Any]) -> dict[str, Any]:
        return {**super().head_defaults(about), "max_qa_length": about["max_seq_length"] // 4}
