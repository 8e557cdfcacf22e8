"""The settings of all classification tasks."""

from __future__ import annotations

from albert.settings.fields import DATA, TRAINING, Affects, redefined, setting
from albert.settings.run_settings import KeptCheckpoints, RunSettings
from albert.settings.text_settings import TextSettings


class ClassificationSettings(KeptCheckpoints, TextSettings, theme=DATA):
    """Data, features and schedule; by default there is no warm-up."""

    # Empty if there is only one task.
    task_name: str = ""
    num_train_epochs: float = redefined(RunSettings, "num_train_epochs", 0.0)
    warmup_proportion: float = redefined(RunSettings, "warmup_proportion", 0.0)
    train_steps: int = redefined(
        RunSettings,
        "train_steps",
        -1,
        help="Number of training steps. If you pass only --num_train_epochs, that decides.",
        aliases=("train_step",),
    )
    predict_batch_size: int = redefined(
        RunSettings, "predict_batch_size", 8, aliases=("eval_batch_size",)
    )
    max_seq_length: int = redefined(TextSettings, "max_seq_length", 512)
    data_dir: str = setting(
        "",
        "Folder of the data: with --task_name=tsv, that of its tables; otherwise one that has a "
        "subfolder for each task, such as MRPC. Required.",
        affects=Affects.FEATURES,
        basic=True,
        path=True,
    )
    do_train: bool = setting(False, "Train on the training set.", basic=True)
    do_eval: bool = setting(False, "Score every checkpoint on the development set.", basic=True)
    do_predict: bool = setting(False, "Label the test set with the best checkpoint.", basic=True)
    warmup_step: int = setting(
        0,
        "Number of warm-up steps, in which the learning rate rises. If you pass it, it "
        "overrides --warmup_proportion.",
        TRAINING,
        Affects.WEIGHTS,
        lower=0,
    )
