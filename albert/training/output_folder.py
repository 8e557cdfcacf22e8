"""The folder of a run: its files, and `run.json`, which keeps other runs from resuming it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import (
    SAVING,
    best_or_newest,
    content_of_checkpoint,
    list_checkpoints,
    resolve_checkpoint,
)
from albert.checkpoints.model_folder import (
    ASSET_NAMES,
    ASSETS,
    RECORD,
    SCORES,
    WAYS_OUT,
    ModelFolder,
    check_model,
    read_description,
    read_run_record,
    recorded_settings,
    write_assets,
)
from albert.core.errors import FlagError, UserError
from albert.core.files import content_of, temporary_names, write_json
from albert.core.record import differences
from albert.core.version import VERSION
from albert.distributed import collectives
from albert.records import TRAIN
from albert.settings.fields import Affects
from albert.settings.run_settings import RunSettings
from albert.training.metrics import METRICS
from albert.training.plan import WORKERS
from albert.training.task import Task, precision_config
from albert.training.task_model import assets_of, properties_of

_VERSION = 2
# Names the run of MLflow to which `--track=mlflow` sends metrics.
MLFLOW = "mlflow.json"
_CHECKPOINT = r"\.(index|meta|data-\d{5}-of-\d{5})"
# Files of every run whose names contain numbers: the form in a record, and the pattern.
_FORMS = {
    "model.ckpt-*": r"model\.ckpt-(\d+|best)" + _CHECKPOINT,
    "resume.ckpt-*": r"resume\.ckpt-\d+" + _CHECKPOINT,
    "events.out.tfevents.*": r"events\.out\.tfevents\.\d+\..+",
    "eval/events.out.tfevents.*": r"eval/events\.out\.tfevents\.\d+\..+",
}
# Files that every run writes.
OF_EVERY_RUN = (
    *_FORMS,
    "checkpoint",
    "graph.pbtxt",
    "eval_results.txt",
    SCORES,
    METRICS,
    MLFLOW,
    *(f"{ASSETS}/{name}" for name in ASSET_NAMES),
    RECORD,
)
# The name of a file that a program was writing when it was killed; the second form is TensorFlow's.
_UNFINISHED = re.compile(temporary_names("(.+)") + r"|(.+)\.tmp[0-9a-f]{32}")


def training_settings(task: Task, contents: Mapping[str, Any]) -> dict:
    """Returns the settings that weights depend on; `contents` are those of the training split."""
    settings = task.settings
    return {
        **settings.affecting(Affects.WEIGHTS),
        "number of workers": collectives.size(),
        "bf16 configuration": precision_digest(task),
        "init_checkpoint": _checkpoint_content(settings),
        **contents,
    }


def scoring_settings(task: Task, contents: Mapping[str, Any]) -> dict:
    """Returns the settings that scores depend on except the checkpoint; see `training_settings`."""
    settings = task.settings
    record = os.path.join(settings.output_dir, RECORD)
    has_checkpoints = bool(list_checkpoints(settings.output_dir))
    return {
        # If the folder has checkpoints, the initial one is not scored.
        "init_checkpoint": None if has_checkpoints else _checkpoint_content(settings),
        "run": content_of(record) if os.path.exists(record) else None,
        "bf16 configuration": precision_digest(task),
        **settings.affecting(Affects.SCORES),
        **contents,
    }


def split_settings(task: Task, split: str, contents: Mapping[str, Any]) -> dict:
    """Returns a split's settings that all workers must share, as in `training_settings`."""
    if split == TRAIN:
        return training_settings(task, contents)
    return {**task.settings.affecting(Affects.SCORES | Affects.JOB), **contents}


def precision_digest(task: Task) -> str | None:
    """Returns a digest of the list of operations in low precision; None for float32."""
    config = precision_config(task)
    return config.digest() if config else None


def _checkpoint_content(settings: RunSettings) -> str | None:
    """Returns a digest of the initial checkpoint's values; None without one."""
    if not settings.init_checkpoint:
        return None
    return content_of_checkpoint(resolve_checkpoint(settings.init_checkpoint))


def check_weights(task: Task) -> None:
    """Raises a `FlagError` unless the flags describe the model that was trained.

    A prediction with the weights in --output_dir is checked against the run there. A training, or
    a prediction with other weights, is checked against the record next to --init_checkpoint. A
    training may start from the weights of another task.
    """
    settings, model = task.settings, properties_of(task)
    trains = TRAIN in task.splits
    if not trains:
        model |= {"task": task.kind, **task.identity}
    if not trains and best_or_newest(settings.output_dir):
        check_model(settings.output_dir, model, "--output_dir")
    elif settings.init_checkpoint:
        continues = trains and not settings.overwrite_output_dir
        if continues and read_run_record(settings.output_dir):
            # It was checked when it began, and `check_output_dir` compares it with that run.
            return
        check_model(settings.init_checkpoint, model, "--init_checkpoint")


def check_output_dir(settings: RunSettings, current: dict) -> None:
    """Raises a `FlagError` if --output_dir has another run, or --init_checkpoint would be lost."""
    output_dir, initial = settings.output_dir, settings.init_checkpoint
    if initial:
        folder, name = os.path.split(os.path.realpath(resolve_checkpoint(initial)))
        if folder == os.path.realpath(output_dir) and name.startswith("model.ckpt-"):
            raise FlagError(
                f"--init_checkpoint {initial} would be replaced or removed by this run, which "
                "writes its own checkpoints there; give another --output_dir"
            )
    if not settings.overwrite_output_dir:
        check_run(settings, current)


def write_assets_of(task: Task) -> None:
    """Writes the assets; a prediction, whose flags may differ, keeps those of a training."""
    folder, trains = task.settings.output_dir, TRAIN in task.splits
    if trains or not (recorded_settings(folder) or read_description(folder)):
        write_assets(folder, assets_of(task))


def checkpoint_to_use(settings: RunSettings) -> str:
    """Returns the best, else newest, else initial checkpoint; raises a `UserError` if none."""
    checkpoint = best_or_newest(settings.output_dir) or settings.init_checkpoint
    if not checkpoint:
        raise UserError(
            f"{settings.output_dir} has no checkpoint; train first, or give --init_checkpoint"
        )
    return resolve_checkpoint(checkpoint)


def model_to_use(settings: RunSettings) -> ModelFolder:
    """Returns the folder of `checkpoint_to_use`: that of a run, an export or `transformers`.

    Raises:
      UserError: there is no checkpoint; only on rank 0, because other hosts need no checkpoint.
    """
    try:
        checkpoint = checkpoint_to_use(settings)
    except UserError:
        if collectives.is_chief():
            raise
        return ModelFolder(settings.output_dir, {}, is_trained=True)
    return ModelFolder.from_checkpoint(checkpoint)


def init_checkpoint_forgotten(settings: RunSettings) -> bool:
    """Returns whether training starts from random weights without --from_scratch."""
    return settings.from_scratch is False and not settings.init_checkpoint


def clear_litter_of_runs(folder: str, outputs: Sequence[str]) -> None:
    """Removes unfinished files of killed runs; the caller must have locked the folder."""
    ours = _pattern({*_written(folder, outputs), *OF_EVERY_RUN, *outputs})

    def is_unfinished(path: str) -> bool:
        parent, name = os.path.split(path)
        match = _UNFINISHED.fullmatch(name)
        return bool(match and re.fullmatch(ours, os.path.join(parent, match[1] or match[2])))

    removed = _remove(folder, is_unfinished)
    saving = os.path.join(folder, SAVING)
    if os.path.isdir(saving) and not os.path.islink(saving):
        shutil.rmtree(saving)
        removed += 1
    if removed:
        tf.logging.info("Removed %d leftovers of killed runs in %s", removed, folder)


def _pattern(names: Iterable[str]) -> str:
    return "|".join(_FORMS.get(name) or re.escape(name) for name in names)


def _remove(folder: str, is_removed: Callable[[str], object]) -> int:
    names = list(filter(is_removed, _files(folder)))
    # A checkpoint's index goes before its data, and the record, which lists all files, goes last,
    # so that an interrupted removal leaves no checkpoint that looks complete.
    for name in sorted(names, key=lambda name: (name == RECORD, not name.endswith(".index"))):
        os.remove(os.path.join(folder, name))
    return len(names)


def _files(folder: str) -> Iterator[str]:
    """Yields relative paths of the files in a folder and in those of its folders that runs make."""
    for entry in os.scandir(folder):
        if not entry.is_dir():
            yield entry.name
        elif not entry.is_symlink() and entry.name in ("eval", ASSETS):
            yield from (f"{entry.name}/{e.name}" for e in os.scandir(entry) if not e.is_dir())


def files_of_results(task: Task) -> list[str]:
    """Returns the names of the files that a run writes into its folder for a task."""
    labels = task.label_outputs
    return [*task.outputs, *labels, *(f"{name}.json" for name in labels[:1])]


def begin_run(task: Task, recorded: dict) -> None:
    """Records a training run; with --overwrite_output_dir, first removes the files of another one.

    `recorded` are JSON values by flag name, or by description if they are not flags. Raises a
    `FlagError` if the folder holds a run with other values, and a `UserError` if the record is
    damaged.
    """
    settings, outputs = task.settings, files_of_results(task)
    output_dir = settings.output_dir
    if settings.overwrite_output_dir:
        written = re.compile(_pattern(_written(output_dir, outputs)))
        if removed := _remove(output_dir, written.fullmatch):
            tf.logging.info("--overwrite_output_dir: removed %d files in %s", removed, output_dir)
    check_run(settings, recorded)
    path = os.path.join(output_dir, RECORD)
    if not os.path.exists(path):
        record = {"version": _VERSION, "program_version": VERSION, "task": task.kind}
        record |= {"settings": recorded, **({"model": settings.model} if settings.model else {})}
        write_json(path, record | {"outputs": sorted({*OF_EVERY_RUN, *outputs})})


def check_run(settings: RunSettings, current: dict) -> None:
    """Checks values against a run in the folder, if any; raises the errors of `begin_run`."""
    output_dir = settings.output_dir
    recorded = recorded_settings(output_dir)
    if recorded is None:
        numbered = r"(model|resume)\.ckpt-\d+\.index"
        if os.path.isdir(output_dir) and any(re.fullmatch(numbered, n) for n in _files(output_dir)):
            raise FlagError(
                f"--output_dir {output_dir} has checkpoints but no {RECORD}, so their training "
                f"settings are unknown; {WAYS_OUT}"
            )
        return
    # Records of earlier versions lack newer flags.
    different = differences(recorded, current, settings.defaults())
    if not different:
        return
    # Flags, or members of a flag's file; the names of other values have spaces.
    named = (
        d._replace(name=f"--{d.name}") if d.name.split(".")[0].isidentifier() else d
        for d in different
    )
    message = f"--output_dir {output_dir} holds a run with other flags: "
    message += ", ".join(map(str, named))
    is_elastic = any(one.name == WORKERS for one in different)
    elastic = ", or --elastic_resume to resume it with other workers" * is_elastic
    raise FlagError(f"{message}; {WAYS_OUT}{elastic}")


def _written(output_dir: str, outputs: Sequence[str]) -> list[str]:
    """Returns the files that the recorded run writes; without a valid record, this task's files."""
    with contextlib.suppress(UserError):
        if names := read_run_record(output_dir).get("outputs"):
            return names
    return [*OF_EVERY_RUN, *outputs]
