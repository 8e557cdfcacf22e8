"""The settings of GLUE, and of a classification of one's own."""

from __future__ import annotations

from albert.settings.fields import ANSWERS, DATA, FEATURES, Affects, redefined, setting
from albert.tasks.classification.settings import ClassificationSettings

CUSTOM = "tsv"
# What `albert.tasks.glue.tasks` has, which cannot be imported without TensorFlow, and one's own.
TASKS = (
    *("cola", "mnli", "mismnli", "mrpc", "rte", "sst-2", "sts-b", "qqp", "qnli", "wnli", "ax"),
    CUSTOM,
)
# The shortest feature: [CLS], a token, [SEP], a token, [SEP].
SHORTEST = 5


class GlueSettings(ClassificationSettings):
    """The settings of GLUE; the steps are the reference's."""

    train_steps: int = redefined(ClassificationSettings, "train_steps", 1000)
    save_checkpoints_steps: int = redefined(ClassificationSettings, "save_checkpoints_steps", 1000)
    max_seq_length: int = redefined(ClassificationSettings, "max_seq_length", 512, lower=SHORTEST)
    task_name: str = setting(
        "",
        "One of cola, mnli, mismnli, mrpc, rte, sst-2, sts-b, qqp, qnli, wnli, ax, tsv. Required.",
        DATA,
        Affects.FEATURES,
        basic=True,
    )
    tsv_regression: bool = setting(
        False, "With --task_name=tsv: labels are numbers to be predicted.", DATA, Affects.FEATURES
    )
    cached_dir: str | None = setting(
        None,
        "Folder of the features of training and development: read if made from the same "
        "input, else written. Default: --output_dir.",
        FEATURES,
        path=True,
    )
    input_file: str | None = setting(
        None,
        "Folder with a ready train.tf_record, which takes the place of the training features "
        "in --cached_dir; where it has none, they are used.",
        FEATURES,
        path=True,
    )
    threshold_to_export: float = setting(
        float("nan"), "Number that the exported model gives as `threshold`.", ANSWERS
    )
