"""Reads what a training recorded about its model: `model.json` and `eval_results.json`."""

from __future__ import annotations

import os
from typing import Any

from albert.core.errors import UserError
from albert.core.files import read_json
from albert.training.assets import DESCRIPTION

SCORES = "eval_results.json"


def read_description(folder: str) -> dict[str, Any]:
    """Reads the description of a model from its folder of assets.

    Raises:
      UserError: the description cannot be read, or does not name the model's task.
    """
    path = os.path.join(folder, DESCRIPTION)
    about = read_json(path, "the description of the model")
    if not isinstance(about, dict) or not isinstance(about.get("task"), str):
        raise UserError(f"{path} does not name the model's task")
    return about


def recorded_scores(output_dir: str) -> dict[str, Any]:
    """Reads the scores of a run's best checkpoint; empty before the first evaluation.

    Raises:
      UserError: the record cannot be read.
    """
    path = os.path.join(output_dir, SCORES)
    return read_json(path, "the record of scores") if os.path.exists(path) else {}


def trained_threshold(given: float | None, output_dir: str, score: str) -> float | None:
    """Returns a threshold: the given one, or the one with the best score; None if unknown.

    Args:
      given: the value of the flag.
      output_dir: the folder of the run.
      score: the name of the threshold in the record of scores.
    """
    return recorded_scores(output_dir).get(score) if given is None else given
