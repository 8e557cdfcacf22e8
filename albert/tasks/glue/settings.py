"""The settings of GLUE tasks, and of classification with your own data."""

from __future__ import annotations

from albert.settings.fields import ANSWERS, DATA, FEATURES, Affects, redefined, setting
from albert.tasks.classification.settings import ClassificationSettings

CUSTOM = "tsv"
# The tasks of `albert.tasks.glue.tasks`, whose import needs TensorFlow, and the custom one.
TASKS = (
    *("cola", "mnli", "mismnli", "mrpc", "rte", "sst-2", "sts-b", "qqp", "qnli", "wnli", "ax"),
    CUSTOM,
)
# The shortest feature: [CLS], a token, [SEP], a token, [SEP].
SHORTEST = 5


class GlueSettings(ClassificationSettings):
    """The settings of GLUE; the numbers of steps are those of the reference."""

    train_steps: int = redefined(ClassificationSettings, "train_steps", 1000)
    save_checkpoints_steps: int = redefined(ClassificationSettings, "save_checkpoints_steps", 1000)
    max_seq_length: int = redefined(ClassificationSettings, "max_seq_length", 512, lower=SHORTEST)
    task_name: str = setting(
        "",
        "Task: cola, mnli, mismnli, mrpc, rte, sst-2, sts-b, qqp, qnli, wnli, ax, or tsv for your "
        "own data. Required.",
        DATA,
        Affects.FEATURES,
        basic=True,
    )
    tsv_regression: bool = setting(
        False,
        "With --task_name=tsv: predict numbers (regression) instead of labels.",
        DATA,
        Affects.FEATURES,
    )
    cached_dir: str | None = setting(
        None,
        "Folder for the features of the training and development sets. They are reused if they "
        "were made from the same input, otherwise written. Default: --output_dir.",
        FEATURES,
        path=True,
    )
    input_file: str | None = setting(
        None,
        "Folder with a ready-made train.tf_record to use instead of the training features in "
        "--cached_dir. If it has none, those in --cached_dir are used.",
        FEATURES,
        path=True,
    )
    threshold_to_export: float = setting(
        float("nan"), "Number that the exported model returns as `threshold`.", ANSWERS
    )
