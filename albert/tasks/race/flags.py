"""The flags of RACE."""

from __future__ import annotations

from albert.settings.flags import DATA, FEATURES, TRAINING, Shapes, define, define_alias
from albert.tasks.classification.flags import define_classification_flags

# Of the features of each part.
FEATURE_FLAGS = {"train": "train_file", "dev": "eval_file", "test": "predict_file"}
# The reference's.
_DEFAULTS = {"train_steps": 12000, "learning_rate": 1e-5, "save_checkpoints_steps": 100}


def define_race_flags() -> None:
    """Defines data, features and schedule; call it after `define_run_flags`."""
    text = "Folder with RACE/train, RACE/dev and RACE/test."
    define_classification_flags(text, ("do_train", "do_eval"), 1, 1000, _DEFAULTS)
    define_alias("num_keep_checkpoint", "keep_checkpoint_max")
    define(DATA, Shapes.NOTHING, True).choice(
        "task_name", "race", ["race", "RACE"], "The only one."
    )
    for level in ("high", "middle"):
        define(DATA, Shapes.FEATURES).switch(f"{level}_only", False, f"Only {level} schools.")
    for part, name in FEATURE_FLAGS.items():
        text = f"Features of RACE/{part}, read or made. Default: {part}.tf_record in --output_dir."
        define(FEATURES, Shapes.NOTHING).path(name, None, text)
    text = "Tokens of a question with an option; of longer ones the beginning is cut off."
    define(FEATURES, Shapes.FEATURES).integer("max_qa_length", 128, text, lower_bound=1)
    bounds = {"lower_bound": 0.0, "upper_bound": 0.99}
    define(TRAINING, Shapes.WEIGHTS).number("dropout_prob", 0.1, "Dropout of the head.", **bounds)
