"""The files of a run in its output folder: what is its own, by exact names, and what is litter.

The folder may hold other things, which stay whatever they are called. Links are removed, never
followed, and of folders only those in which checkpoints are made.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator

from albert.checkpoints.checkpoint_files import SAVING
from albert.core.files import temporary_names
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
