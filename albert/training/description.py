"""Reads and validates `model.json`, which `assets.write_assets` writes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

from albert.core.errors import UserError
from albert.core.files import read_json
from albert.training.assets import DESCRIPTION

_LARGEST = 2**31 - 1


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_switch(value: Any) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _LARGEST


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_number_or_none(value: Any) -> bool:
    return value is None or _is_number(value)


def _are_labels(value: Any) -> bool:
    return isinstance(value, list) and (
        value == [None] or bool(value) and all(map(_is_text, value))
    )


def _are_limits(value: Any) -> bool:
    return value is None or isinstance(value, list) and [*map(_is_number, value)] == [True, True]


_TEXT = _is_text, "a text"
_SWITCH = _is_switch, "true or false"
_COUNT = _is_count, f"a whole number from 1 to {_LARGEST}"
_NUMBER_OR_NONE = _is_number_or_none, "a finite number or null"
# The check of each value and its description; values with other names are not checked.
_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "task": _TEXT,
    "do_lower_case": _SWITCH,
    "multi_label": _SWITCH,
    "mask_padding_in_loss": _SWITCH,
    "max_seq_length": _COUNT,
    "doc_stride": _COUNT,
    "max_query_length": _COUNT,
    "max_qa_length": _COUNT,
    "max_answer_length": _COUNT,
    "n_best_size": _COUNT,
    "start_n_top": _COUNT,
    "end_n_top": _COUNT,
    "no_answer_threshold": _NUMBER_OR_NONE,
    "label_threshold": _NUMBER_OR_NONE,
    "labels": (_are_labels, "a list of texts, or [null] for numbers"),
    "limits": (_are_limits, "two finite numbers or null"),
}


def read_description(folder: str) -> dict[str, Any]:
    """Reads the description of a model from its folder of assets.

    Raises:
      UserError: the description cannot be read, does not name the model's task, or has an
        invalid value.
    """
    path = os.path.join(folder, DESCRIPTION)
    about = read_json(path, "the description of the model")
    if not isinstance(about, dict) or "task" not in about:
        raise UserError(f"{path} does not name the model's task")
    for name, (is_fit, allowed) in _KINDS.items():
        if name in about and not is_fit(about[name]):
            raise UserError(f"{path}: {name} must be {allowed}, not {about[name]!r:.80}")
    return about
