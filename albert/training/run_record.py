"""The files of a run in --output_dir, and `run.json`, which keeps other runs from resuming it."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import SAVING
from albert.checkpoints.model_folder import (
    ASSET_NAMES,
    ASSETS,
    RECORD,
    SCORES,
    WAYS_OUT,
    read_run_record,
    recorded_settings,
)
from albert.core.errors import FlagError, UserError
from albert.core.files import temporary_names, write_json
from albert.core.record import differences
from albert.core.version import VERSION
from albert.distributed import launcher
from albert.precision.configuration import VARIABLE as BF16_VARIABLE
from albert.settings.run_settings import RunSettings
from albert.training.metrics import METRICS
from albert.training.plan import WORKERS
from albert.training.task import Task

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
# The file that TensorFlow leaves if it is killed while it writes the file `{0}`.
_UNFINISHED = r"(?:{0})\.tmp[0-9a-f]{{32}}"
# TensorFlow's folder for the parts of an unfinished checkpoint, and the files in it. This version
# saves below `SAVING`, which is removed as a whole.
_PARTS_FOLDER = r"model\.ckpt-\d+_temp"
_PARTS = _PARTS_FOLDER + r"/part-\d{5}-of-\d{5}\.(index|data-\d{5}-of-\d{5})(\.tempstate\d+)?"
_UNFINISHED_ASSETS = re.escape(f"{ASSETS}/") + temporary_names(
    "|".join(map(re.escape, ASSET_NAMES))
)
# Folders in which a run has files.
_FOLDERS = f"eval|{re.escape(ASSETS)}|{_PARTS_FOLDER}"


def clear_litter_of_runs(folder: str, outputs: Sequence[str]) -> None:
    """Removes unfinished files of killed runs; the caller must have locked the folder."""
    names = _pattern({*_written(folder, outputs), *OF_EVERY_RUN, *outputs})
    forms = temporary_names(names), _UNFINISHED.format(names), _PARTS, _UNFINISHED_ASSETS
    removed = _remove(folder, "|".join(forms))
    saving = os.path.join(folder, SAVING)
    if os.path.isdir(saving) and not os.path.islink(saving):
        shutil.rmtree(saving)
        removed += 1
    for name in os.listdir(folder):
        if re.fullmatch(_PARTS_FOLDER, name):
            # Fails for a link, or if the folder has other files; both stay.
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(folder, name))
    if removed:
        tf.logging.info("Removed %d leftovers of killed runs in %s", removed, folder)


def _pattern(names: Iterable[str]) -> str:
    return "|".join(_FORMS.get(name) or re.escape(name) for name in names)


def _remove(folder: str, pattern: str) -> int:
    names = [name for name in _files(folder) if re.fullmatch(pattern, name)]
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
        elif not entry.is_symlink() and re.fullmatch(_FOLDERS, entry.name):
            yield from (f"{entry.name}/{e.name}" for e in os.scandir(entry) if not e.is_dir())


_VERSION = 2


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
        names = _written(output_dir, outputs)
        if removed := _remove(output_dir, _pattern(names)):
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
    if different:
        # Flags, or members of a flag's file; the names of other values have spaces.
        named = (
            d._replace(name=f"--{d.name}") if d.name.split(".")[0].isidentifier() else d
            for d in different
        )
        message = (
            f"--output_dir {output_dir} holds a run with other flags: {', '.join(map(str, named))}"
        )
        for one in different:
            if one.name == WORKERS:
                # Usually the first run had one card and this has all, as in the README of Habana's
                # fork.
                raise FlagError(
                    f"{message}; the command above gives the run with {one.now} another folder; or "
                    f"start {one.was} to resume the first run, or pass --elastic_resume to resume "
                    f"it with {one.now}, or --overwrite_output_dir to remove it and start over",
                    command=_command_for(output_dir, f"-{one.now}"),
                )
        raise FlagError(f"{message}; {WAYS_OUT}")


def _command_for(output_dir: str, suffix: str) -> str:
    """Returns this job's command with a suffix on its --output_dir, to paste into a shell."""
    arguments = launcher.command()
    # The last of several flags counts, so a later one would replace this. In a job of several runs
    # it names a parent of `output_dir`.
    for number, argument in reversed([*enumerate(arguments)]):
        name, equals, path = argument.partition("=")
        if name.replace("--", "-").replace("-", "_") != "_output_dir":
            continue
        if equals:
            arguments[number] = f"{name}={os.path.normpath(path)}{suffix}"
        else:
            arguments[number + 1] = os.path.normpath(arguments[number + 1]) + suffix
        break
    else:
        arguments.append(f"--output_dir={os.path.normpath(output_dir)}{suffix}")
    # A variable before the command is not part of it.
    value = os.environ.get(BF16_VARIABLE, "")
    is_known = not value or any(BF16_VARIABLE in argument for argument in arguments)
    return ("" if is_known else f"{BF16_VARIABLE}={shlex.quote(value)} ") + shlex.join(arguments)


def _written(output_dir: str, outputs: Sequence[str]) -> list[str]:
    """Returns the files that the recorded run writes; without a valid record, this task's files."""
    with contextlib.suppress(UserError):
        if names := (read_run_record(output_dir) or {}).get("outputs"):
            return names
    return [*OF_EVERY_RUN, *outputs]
