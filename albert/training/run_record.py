"""The files of a run in --output_dir, and `run.json`, by which only the same run is resumed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import SAVING
from albert.core.errors import FlagError, UserError
from albert.core.files import read_json, temporary_names, write_json
from albert.core.version import VERSION
from albert.training import assets

RECORD = "run.json"
_CHECKPOINT = r"\.(index|meta|data-\d{5}-of-\d{5})"
# Files of every run whose names have numbers in them, as a record lists them.
_FORMS = {
    "model.ckpt-*": r"model\.ckpt-(\d+|best)" + _CHECKPOINT,
    "resume.ckpt-*": r"resume\.ckpt-\d+" + _CHECKPOINT,
    "events.out.tfevents.*": r"events\.out\.tfevents\.\d+\..+",
    "eval/events.out.tfevents.*": r"eval/events\.out\.tfevents\.\d+\..+",
}
# What every run writes.
OF_EVERY_RUN = (
    *_FORMS,
    "checkpoint",
    "graph.pbtxt",
    "eval_results.txt",
    "eval_results.json",
    *(f"{assets.FOLDER}/{name}" for name in assets.NAMES),
    RECORD,
)
# What TensorFlow leaves of a file `{0}` if it is killed while it writes.
_UNFINISHED = r"(?:{0})\.tmp[0-9a-f]{{32}}"
# TensorFlow's folder for a checkpoint that it has not put together yet, and the files in it; today
# it is below `SAVING`, which goes as a whole.
_PARTS_FOLDER = r"model\.ckpt-\d+_temp"
_PARTS = _PARTS_FOLDER + r"/part-\d{5}-of-\d{5}\.(index|data-\d{5}-of-\d{5})(\.tempstate\d+)?"
_UNFINISHED_ASSETS = re.escape(f"{assets.FOLDER}/") + temporary_names(
    "|".join(map(re.escape, assets.NAMES))
)
# Those in which a run has files.
_FOLDERS = f"eval|{re.escape(assets.FOLDER)}|{_PARTS_FOLDER}"


def has_checkpoints(folder: str) -> bool:
    """Returns whether a training has left numbered checkpoints in a folder, whole or not."""
    numbered = r"(model|resume)\.ckpt-\d+\.index"
    return os.path.isdir(folder) and any(re.fullmatch(numbered, name) for name in _files(folder))


def remove_outputs(folder: str, names: Iterable[str]) -> int:
    """Removes the files of a run and returns how many there were.

    Args:
      folder: of the run.
      names: what the run writes, as in `OF_EVERY_RUN`.
    """
    return _remove(folder, _pattern(names))


def clear_litter(folder: str, names: Iterable[str]) -> int:
    """Removes what killed processes have left of files that they wrote; returns how many.

    To be called by a run that has the folder for itself.

    Args:
      folder: of the run.
      names: what the run writes, as in `OF_EVERY_RUN`.
    """
    outputs = _pattern(names)
    forms = temporary_names(outputs), _UNFINISHED.format(outputs), _PARTS, _UNFINISHED_ASSETS
    removed = _remove(folder, "|".join(forms))
    saving = os.path.join(folder, SAVING)
    if os.path.isdir(saving) and not os.path.islink(saving):
        shutil.rmtree(saving)
        removed += 1
    for name in os.listdir(folder):
        if re.fullmatch(_PARTS_FOLDER, name):
            # Unless it is a link, or something else is in it.
            with contextlib.suppress(OSError):
                os.rmdir(os.path.join(folder, name))
    return removed


def _pattern(names: Iterable[str]) -> str:
    return "|".join(_FORMS.get(name) or re.escape(name) for name in names)


def _remove(folder: str, pattern: str) -> int:
    found = [name for name in _files(folder) if re.fullmatch(pattern, name)]
    # What says that other files are there goes before them, and what lists them all comes last.
    for name in sorted(found, key=lambda name: (name == RECORD, not name.endswith(".index"))):
        os.remove(os.path.join(folder, name))
    return len(found)


def _files(folder: str) -> Iterator[str]:
    """Yields the files in a folder and in those folders in it that a run makes, relative to it."""
    for entry in os.scandir(folder):
        if not entry.is_dir():
            yield entry.name
        elif not entry.is_symlink() and re.fullmatch(_FOLDERS, entry.name):
            yield from (f"{entry.name}/{e.name}" for e in os.scandir(entry) if not e.is_dir())


# Version 1 did not list what the run writes.
_VERSION = 2
WORKERS = "number of workers"
# What their records do not say of themselves.
_OF_EARLIER_VERSIONS = {"dropout masks": "by operation"}


def begin_run(
    output_dir: str,
    settings: dict,
    defaults: Mapping[str, object],
    outputs: Sequence[str] = (),
    overwrite: bool = False,
    task: str = "",
) -> None:
    """Records a training run.

    Args:
      output_dir: the folder.
      settings: JSON values by flag name, or by words for what is not a flag.
      defaults: of flags that earlier versions do not have, and so their records either.
      outputs: names of the files that the task writes there.
      overwrite: remove what an earlier run left in the folder; else it must be the same run.
      task: its name.

    Raises:
      FlagError: another run is in the folder.
      UserError: the record is damaged.
    """
    if overwrite:
        removed = remove_outputs(output_dir, _written(output_dir, outputs))
        if removed:
            tf.logging.info("--overwrite_output_dir: removed %d files in %s", removed, output_dir)
    check_run(output_dir, settings, defaults)
    path = os.path.join(output_dir, RECORD)
    if not os.path.exists(path):
        record = {"version": _VERSION, "program_version": VERSION, "task": task}
        record |= {"settings": settings}
        write_json(path, record | {"outputs": sorted({*OF_EVERY_RUN, *outputs})})


def clear_litter_of_runs(output_dir: str, outputs: Sequence[str]) -> None:
    """Removes what killed runs have left of files that they wrote; the folder is to be locked.

    Args:
      output_dir: the folder.
      outputs: names of the files that the task writes there.
    """
    removed = clear_litter(output_dir, {*_written(output_dir, outputs), *OF_EVERY_RUN, *outputs})
    if removed:
        tf.logging.info("Removed what killed runs left in %s: %d", output_dir, removed)


def check_run(output_dir: str, settings: dict, defaults: Mapping[str, object]) -> None:
    """Checks the settings against those of a run in the folder, if there is one.

    Raises:
      FlagError, UserError: as in `begin_run`.
    """
    recorded = recorded_settings(output_dir)
    if recorded is None:
        if has_checkpoints(output_dir):
            raise FlagError(
                f"--output_dir {output_dir} has checkpoints but no {RECORD}, so that nothing tells "
                f"what they were trained on; {_WAYS_OUT}"
            )
        return
    names = sorted(recorded.keys() | settings.keys())
    earlier = {**defaults, **_OF_EARLIER_VERSIONS}
    pairs = {n: (recorded.get(n, earlier.get(n)), settings.get(n)) for n in names}
    differ = {name: (was, now) for name, (was, now) in pairs.items() if was != now}
    if differ:
        listed = ", ".join(
            f"{'--' if name.isidentifier() else ''}{name} (was {was}, is {now})"
            for name, (was, now) in differ.items()
        )
        workers = differ.get(WORKERS)
        ways = _ways_out_of_workers(output_dir, *workers) if workers else _WAYS_OUT
        raise FlagError(f"--output_dir {output_dir} holds a run with other flags: {listed}; {ways}")


_WAYS_OUT = "give another --output_dir, or --overwrite_output_dir to remove it and start anew"


def _ways_out_of_workers(output_dir: str, was: object, now: object) -> str:
    """Says what to do where the number of workers differs: mostly, one card came before all."""
    folder = os.path.normpath(output_dir)
    return (
        f"start {was} to resume it, or go on with {now} by --elastic_resume, or give the run with "
        f"{now} a folder of its own, for example --output_dir={folder}-{now}, or "
        "--overwrite_output_dir to remove what is there and start anew"
    )


def recorded_settings(folder: str) -> dict | None:
    """Returns the settings that `begin_run` recorded in a folder; None if there is no run.

    Raises:
      UserError: the record is damaged.
    """
    path = os.path.join(folder, RECORD)
    if not os.path.exists(path):
        return None
    try:
        return dict(read_json(path, "the record of the run")["settings"])
    except (ValueError, KeyError, TypeError) as e:
        raise UserError(f"{path} is damaged; {_WAYS_OUT}") from e


def recorded_task(folder: str) -> str | None:
    """Returns the task of the run that `begin_run` recorded; None if the record does not say."""
    return read_json(os.path.join(folder, RECORD), "the record of the run").get("task")


def _written(output_dir: str, outputs: Sequence[str]) -> list[str]:
    """Lists what the run in the folder writes, by its record or else as runs like this one do."""
    try:
        names = read_json(os.path.join(output_dir, RECORD), "the record of the run")["outputs"]
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            return names
    except (ValueError, KeyError, TypeError):
        pass
    return [*OF_EVERY_RUN, *outputs]
