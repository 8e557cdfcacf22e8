"""`metrics.jsonl`: the metrics of a run, as one JSON object per line.

A line of the kind `TRAINING` has the figures of a log line, and a line of the kind `SCORES` has the
scores of a checkpoint. Rank 0 appends each line with a single write.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from albert.core.errors import UserError, reporting
from albert.core.files import open_atomically, parse_json, strict_json

METRICS = "metrics.jsonl"
TRAINING, SCORES = "training", "scores"

Line = dict[str, Any]


def append(folder: str, kind: str, step: int, values: Mapping[str, Any]) -> None:
    """Appends a line, non-finite numbers as null; raises a `UserError` if it cannot be written."""
    path = os.path.join(folder, METRICS)
    line = {"kind": kind, "step": int(step), "time": round(time.time(), 3), **values}
    with reporting(f"{path} cannot be written"), open(path, "a", encoding="utf-8") as file:
        file.write(strict_json(line) + "\n")


def read(folder: str) -> list[Line]:
    """Returns the complete lines; an empty list if the file does not exist."""
    return parse(_content_of(folder))


def parse(content: bytes) -> list[Line]:
    """Returns the complete lines of a part of the file."""
    return [line for _, line in _lines_of(content)]


def keep(folder: str, is_kept: Callable[[Line], bool]) -> None:
    """Keeps only some of the lines, and removes the incomplete line of a killed run in any case.

    Writes the file only if it changes; raises a `UserError` if it cannot be written.
    """
    before = _content_of(folder)
    after = b"".join(text + b"\n" for text, line in _lines_of(before) if is_kept(line))
    if after != before:
        with open_atomically(os.path.join(folder, METRICS), "wb") as file:
            file.write(after)


def keep_until(folder: str, step: int) -> None:
    """Removes the training lines after a step, from which the training resumes."""
    keep(folder, lambda line: line["kind"] != TRAINING or line["step"] <= step)


def _content_of(folder: str) -> bytes:
    try:
        with open(os.path.join(folder, METRICS), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _lines_of(content: bytes) -> Iterator[tuple[bytes, Line]]:
    """Yields the lines as text and parsed, except those that are incomplete or damaged."""
    # The part after the last line break is empty, or a line that a killed run did not complete.
    for text in content.split(b"\n")[:-1]:
        with contextlib.suppress(UserError):
            yield text, parse_json(text, METRICS)
