"""The flags of classification."""

from __future__ import annotations

from albert.settings.flags import (
    ANSWERS,
    DATA,
    FEATURES,
    Shapes,
    define,
)
from albert.tasks.classification.flags import define_classification_flags

CUSTOM = "tsv"
# What `albert.tasks.glue.tasks` has, which cannot be imported without TensorFlow, and one's own.
TASKS = (
    *("cola", "mnli", "mismnli", "mrpc", "rte", "sst-2", "sts-b", "qqp", "qnli", "wnli", "ax"),
    CUSTOM,
)
# The shortest feature: [CLS], a token, [SEP], a token, [SEP].
SHORTEST = 5
# The reference's; there is no warmup unless flags say otherwise.
_DEFAULTS = {"train_steps": 1000, "save_checkpoints_steps": 1000}


def define_glue_flags() -> None:
    """Defines data, features and schedule; call it after `define_run_flags`."""
    data = "Folder with a folder a task, such as MRPC; of --task_name=tsv itself."
    define_classification_flags(data, (), SHORTEST, 0, _DEFAULTS)
    _define_data()
    define(ANSWERS, Shapes.NOTHING).number(
        "threshold_to_export", float("nan"), "Number that the exported model gives as `threshold`."
    )


def _define_data() -> None:
    define(DATA, Shapes.FEATURES, True).text(
        "task_name", None, f"One of {', '.join(TASKS)}. Required."
    )
    define(DATA, Shapes.FEATURES).switch(
        "tsv_regression", False, "With --task_name=tsv: labels are numbers to be predicted."
    )
    define(FEATURES, Shapes.NOTHING).path(
        "cached_dir",
        None,
        "Folder of the features of training and development: read if made from the same input, "
        "else written. Default: --output_dir.",
    )
    define(FEATURES, Shapes.NOTHING).path(
        "input_file",
        None,
        "Folder with a ready train.tf_record, which takes the place of the training features in "
        "--cached_dir; where it has none, they are used.",
    )
