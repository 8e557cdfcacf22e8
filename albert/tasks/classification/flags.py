"""The flags that all classifications have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from albert.settings.encoder_flags import define_optimizer, define_text_flags
from albert.settings.flags import (
    DATA,
    TRAINING,
    Shapes,
    change,
    define,
    define_alias,
)
from albert.settings.run_flags import (
    define_from_scratch,
    define_keep_checkpoint_max,
    define_scoring_while_training,
)


def define_classification_flags(
    data: str, done: Collection[str], shortest: int, warmup_step: int, defaults: Mapping[str, Any]
) -> None:
    """Defines data, features and schedule; call it after `define_run_flags`.

    Args:
      data: what is in --data_dir.
      done: which of "do_train", "do_eval" and "do_predict" are on by default.
      shortest: the least length of a sequence.
      warmup_step: its default.
      defaults: of flags that all programs have, where they are others.
    """
    # Before the aliases, which take over what the defaults are then.
    for name, value in {"num_train_epochs": 0.0, "warmup_proportion": 0.0, **defaults}.items():
        change(name, value)
    define(DATA, Shapes.FEATURES, True).path("data_dir", None, f"{data} Required.")
    for name, text in _DO.items():
        define(DATA, Shapes.NOTHING, True).switch(name, name in done, text)
    define_text_flags(max_seq_length=512, shortest=shortest)
    define_alias("train_step", "train_steps")
    define_alias("eval_batch_size", "predict_batch_size")
    define(TRAINING, Shapes.WEIGHTS).integer(
        "warmup_step",
        warmup_step,
        "Steps in which the learning rate rises; takes the place of --warmup_proportion.",
        lower_bound=0,
    )
    define_optimizer("adamw")
    define_from_scratch()
    define_keep_checkpoint_max()
    define_scoring_while_training()


_DO = {
    "do_train": "Train on the training set.",
    "do_eval": "Score every checkpoint on the development set.",
    "do_predict": "Label the test set with the best checkpoint.",
}
