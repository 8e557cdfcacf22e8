"""The settings of GLUE tasks, and of classification with your own data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeVar

from albert.core.errors import FlagError, see_help
from albert.core.files import resource
from albert.settings.fields import (
    ANSWERS,
    DATA,
    FEATURES,
    TOO_LARGE,
    TRAINING,
    Affects,
    Settings,
    redefined,
    setting,
)
from albert.settings.run_settings import REFERENCE
from albert.settings.text_settings import DevSplitSettings
from albert.tables.bad_rows import ERROR, ON_BAD_ROW
from albert.tasks.classification.settings import ClassificationSettings

CUSTOM = "tsv"
# The tasks of `albert.tasks.glue.tasks`, whose import needs TensorFlow, and the custom one.
TASKS = (
    *("cola", "mnli", "mismnli", "mrpc", "rte", "sst-2", "sts-b", "qqp", "qnli", "wnli", "ax"),
    CUSTOM,
)
ALL = "all"
TRUNCATE = "truncate"
# The tasks of run_glue.sh, in the order of GLUE's paper; and those with a column in the table.
_DEFAULT_TASKS = ("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte")
_TASKS_IN_TABLE = (*_DEFAULT_TASKS, "wnli")
# The shortest feature: [CLS], a token, [SEP], a token, [SEP].
SHORTEST = 5

AnyTableSettings = TypeVar("AnyTableSettings", bound="TableSettings")


def parse_seeds(text: str) -> tuple[int, ...]:
    """Parses different seeds, separated by commas; raises a `ValueError`."""
    words = [word.strip() for word in text.split(",")]
    seeds = tuple(int(word) if word.isdecimal() else TOO_LARGE for word in words)
    if max(seeds) >= TOO_LARGE or len(set(seeds)) < len(seeds):
        raise ValueError("must be different whole numbers, such as 1,2,3")
    return seeds


class TableSettings(Settings, theme=DATA, affects=Affects.FEATURES):
    """The columns and labels of tables with your own data."""

    tsv_regression: bool = setting(
        False, "With --task_name=tsv: predict numbers (regression) instead of labels."
    )
    multi_label: bool = setting(
        False, "With --task_name=tsv: a text may have several labels, or none."
    )
    label_separator: str = setting(
        ",", "With --multi_label: the text between two labels in a cell, which may also be a list."
    )
    text_column: str = setting(
        "text_a",
        "With --task_name=tsv: the column of the text. Default: text_a, or the column whose name "
        "or content says it.",
    )
    text_b_column: str = setting(
        "text_b", "With --task_name=tsv: the column of the second text, for pairs of texts."
    )
    label_column: str = setting(
        "label",
        "With --task_name=tsv: the column of the label. Default: label, or as for --text_column.",
    )
    label_columns: tuple[str, ...] | None = setting(
        None,
        "With --task_name=tsv: columns with 0 or 1, one for each of several labels, such as "
        "toxic,insult,threat. They replace --label_column, and imply --multi_label.",
        parser=lambda text: tuple(name.strip() for name in text.split(",") if name.strip()),
    )
    on_bad_row: str = setting(
        ERROR,
        "With --task_name=tsv: what to do with rows for training or development whose text or "
        "label is missing or not valid: error ends the run, skip skips them.",
        choices=ON_BAD_ROW,
    )

    def checked(self: AnyTableSettings) -> AnyTableSettings:
        """Returns the settings, in which columns of labels imply several labels per text.

        Raises a `FlagError` if they contradict each other.
        """
        settings = self.replaced(multi_label=True) if self.label_columns else self
        if settings.label_columns and settings.label_column != "label":
            raise FlagError("--label_column and --label_columns exclude each other")
        if settings.tsv_regression and settings.multi_label:
            raise FlagError("--tsv_regression and --multi_label exclude each other")
        return settings


class GlueSettings(TableSettings, DevSplitSettings, ClassificationSettings, theme=DATA):
    r"""Fine-tunes a model on a GLUE task or your own data, scores it, and labels the test set.

      albert classify reviews.csv --model=albert_base_v2
      albert classify --task_name=MRPC --data_dir=data/glue --do_train --do_eval --do_predict \
        --model=albert_base_v2 --train_steps=800 --warmup_step=200 --learning_rate=2e-5 \
        --max_seq_length=128 --output_dir=out

    The first command trains on a table, or a folder with train.csv and dev.csv, with --recipe=auto;
    `albert predict out/reviews FILE` then labels other texts. --task_name=all trains the eight
    tasks of run_glue.sh, each with its file in configs/, and --seeds=1,2,3 each with these seeds.
    Run the same command again to resume a run that was stopped. A finished run ends at once.
    """

    feature_files = {"cached_dir": ""}
    head = "classification"
    train_steps: int = redefined(ClassificationSettings, "train_steps", 1000, lower=1)
    save_checkpoints_steps: int = redefined(ClassificationSettings, "save_checkpoints_steps", 1000)
    max_seq_length: int = redefined(ClassificationSettings, "max_seq_length", 512, lower=SHORTEST)
    task_name: str = setting(
        "",
        "Task: cola, mnli, mismnli, mrpc, rte, sst-2, sts-b, qqp, qnli, wnli, ax, or tsv for your "
        "own data. Several tasks, as in mrpc,rte, run in sequence, and all means the eight tasks "
        "of run_glue.sh. Each then has its folder in --output_dir, and the flags of "
        "configs/glue_TASK.flags for those that you do not pass. Required.",
        affects=Affects.FEATURES,
        basic=True,
    )
    seeds: tuple[int, ...] | None = setting(
        None,
        "Seeds, such as 1,2,3. Each task is trained with each of them, in its own folder, and the "
        "table shows the median scores. Replaces --seed.",
        TRAINING,
        parser=parse_seeds,
    )
    label_threshold: float | None = setting(
        None,
        "With --multi_label: the probability from which a label is predicted. Default: the value "
        "with the best micro F1 on the development set, or 0.5 without --do_eval.",
        ANSWERS,
        Affects.SCORES,
        lower=0.0,
        upper=1.0,
    )
    class_weights: str | None = setting(
        None,
        "Weights of the labels in the training loss: balanced weighs rare labels more. Scores and "
        "eval_loss have no weights.",
        TRAINING,
        Affects.WEIGHTS,
        choices=("balanced",),
    )
    long_texts: str = setting(
        TRUNCATE,
        "What to do with texts of more than --max_seq_length tokens, or the longer one of a pair: "
        "truncate it, or split it into overlapping windows, each an example in training. The "
        "probabilities of a text are then the mean or the max of those of its windows.",
        FEATURES,
        Affects.FEATURES,
        choices=(TRUNCATE, "mean", "max"),
    )
    doc_stride: int = setting(
        128,
        "With --long_texts=mean or max: distance between the beginnings of two windows, in tokens.",
        FEATURES,
        Affects.FEATURES,
        lower=1,
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

    def is_auto(self) -> bool:
        is_own = self.task_name.lower() == CUSTOM
        return self.recipe != REFERENCE if is_own else super().is_auto()

    def with_data(self, path: str) -> GlueSettings:
        if "task_name" in self.given and self.task_name.lower() != CUSTOM:
            raise FlagError(f"{path} has your own data: remove --task_name, or the path")
        own = {"task_name": CUSTOM, "data_dir": path, "do_train": True, "do_eval": True}
        return self._implying(path, **own)

    def head_defaults(self, about: Mapping[str, Any]) -> dict[str, Any]:
        # As a model for own data.
        own = {"limits": None, "task_name": CUSTOM, "tsv_regression": about["labels"] == [None]}
        return {**super().head_defaults(about), **own}

    def is_benchmark(self) -> bool:
        """Returns whether runs have their own folders in --output_dir, and a table of scores."""
        return bool(self.seeds) or "," in self.task_name or self.task_name.lower() == ALL

    def runs(self) -> Mapping[str, GlueSettings]:
        """See `RunSettings.runs`. The runs of a benchmark have the presets of their tasks.

        A preset replaces the default of a flag. It is not in `given`, so that --num_train_epochs
        takes precedence over the steps of a preset.
        """
        if not self.is_benchmark():
            return {"": self}
        if self.task_name.lower() == CUSTOM:
            raise FlagError("--seeds is for the tasks of GLUE: pass --seed and an --output_dir")
        for name in ("input_file", "tsv_regression"):
            if getattr(self, name):
                raise FlagError(f"--{name} is for a single run of one task; remove it")
        if self.seeds and "seed" in self.given:
            raise FlagError("--seed and --seeds contradict each other; remove one")
        runs = {}
        for task in tasks_of(self.task_name):
            preset = self.from_file(resource(f"configs/glue_{task}.flags"))
            values: dict[str, Any] = {n: getattr(preset, n) for n in preset.given - self.given}
            # All seeds share the features of their task.
            cached_dir = self.cached_dir or os.path.join(self.output_dir, task)
            values |= {"task_name": preset.task_name, "seeds": None, "cached_dir": cached_dir}
            for seed in self.seeds or (self.seed,):
                name = f"{preset.task_name}, seed {seed}" if self.seeds else preset.task_name
                folder = f"{task}/seed-{seed}" if self.seeds else task
                values["export_dir"] = self.export_dir and os.path.join(self.export_dir, folder)
                output_dir = os.path.join(self.output_dir, folder)
                runs[name] = self.replaced(**{**values, "seed": seed, "output_dir": output_dir})
        return runs

    def follow_ups(self) -> list[GlueSettings]:
        """Returns the runs that score and label other sets with this run's model.

        They need its checkpoint as --init_checkpoint.
        """
        if self.task_name.lower() != "mnli":
            return []
        scoring = self.replaced(do_train=False, export_dir="")
        # The diagnostic set has no development set.
        do_evals = {"mismnli": self.do_eval, "ax": False}
        return [
            scoring.replaced(
                task_name=task, output_dir=os.path.join(self.output_dir, task), do_eval=do_eval
            )
            for task, do_eval in do_evals.items()
            if do_eval or self.do_predict
        ]


def tasks_of(text: str) -> list[str]:
    """Returns the tasks in a list such as "mrpc,RTE", in lower case.

    Raises a `FlagError` if a task has no column in the table, or occurs twice.
    """
    tasks = list[str]()
    for word in text.lower().split(","):
        name = word.strip()
        if name != ALL and name not in _TASKS_IN_TABLE:
            known = (ALL, *_TASKS_IN_TABLE)
            advice = f"{', '.join(known)}{see_help(name, known)}"
            raise FlagError(f"--task_name={text}: {name!r} is not one of {advice}")
        tasks += _DEFAULT_TASKS if name == ALL else [name]
    if twice := [name for name in dict.fromkeys(tasks) if tasks.count(name) > 1]:
        raise FlagError(f"--task_name={text} has {', '.join(twice)} twice; remove one")
    return tasks
