"""`run.json`: what shaped the training in a folder, so that it is resumed by the same only."""

from __future__ import annotations

import glob
import json
import os
import shutil

import tensorflow.compat.v1 as tf

from runtime.checkpoints import list_checkpoints
from runtime.errors import FlagError, UserError
from runtime.files import write_json

_NAME = "run.json"
_VERSION = 1
# Everything a program of this project writes into its output folder, but for feature files.
_OUTPUTS = (
    "model.ckpt-*",
    "checkpoint",
    "graph.pbtxt",
    "events.out.tfevents.*",
    "eval/events.out.tfevents.*",
    "predictions.json",
    "nbest_predictions.json",
    "null_odds.json",
    "test_results.tsv",
    "test_results.tsv.json",
    "submit_results.tsv",
    "eval_results.txt",
    "eval_results.json",
    _NAME,
)


def begin_run(output_dir: str, settings: dict, overwrite: bool) -> None:
    """Records the settings of a training run.

    Args:
      output_dir: the folder.
      settings: JSON values by flag name, or by words for what is not a flag.
      overwrite: remove what an earlier run left in the folder; else it must be the same run.

    Raises:
      FlagError: another run is in the folder.
      UserError: the record is damaged.
    """
    if overwrite:
        _remove_outputs(output_dir)
    check_run(output_dir, settings)
    path = os.path.join(output_dir, _NAME)
    if not os.path.exists(path):
        write_json(path, {"version": _VERSION, "settings": settings})


def check_run(output_dir: str, settings: dict) -> None:
    """Checks the settings against those of a run in the folder, if there is one.

    Raises:
      FlagError, UserError: as in `begin_run`.
    """
    path = os.path.join(output_dir, _NAME)
    if not os.path.exists(path):
        if list_checkpoints(output_dir):
            raise FlagError(
                f"--output_dir {output_dir} has checkpoints but no {_NAME}, so that nothing tells "
                f"what they were trained on; {_WAYS_OUT}"
            )
        return
    recorded = _read(path)
    names = sorted(recorded.keys() | settings.keys())
    differ = [n for n in names if recorded.get(n) != settings.get(n)]
    if differ:
        listed = ", ".join(
            f"{'--' if n.isidentifier() else ''}{n} (was {recorded.get(n)}, is {settings.get(n)})"
            for n in differ
        )
        raise FlagError(
            f"--output_dir {output_dir} holds a run with other flags: {listed}; {_WAYS_OUT}"
        )


_WAYS_OUT = "give another --output_dir, or --overwrite_output_dir to remove it and start anew"


def recorded_settings(folder: str) -> dict | None:
    """What `begin_run` recorded in a folder, None if there is no run.

    Raises:
      UserError: the record is damaged.
    """
    path = os.path.join(folder, _NAME)
    return _read(path) if os.path.exists(path) else None


def _read(path: str) -> dict:
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file)["settings"])
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise UserError(f"{path} is damaged; {_WAYS_OUT}") from e


def _remove_outputs(output_dir: str) -> None:
    """Removes what a run has written; the folder may hold other things, which stay."""
    removed = []
    for pattern in _OUTPUTS:
        for path in glob.glob(os.path.join(glob.escape(output_dir), pattern)):
            removed.append(path)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    if removed:
        tf.logging.info("--overwrite_output_dir: removed %d files in %s", len(removed), output_dir)
