"""The metrics of a run: `metrics.jsonl`, and curves for TensorBoard.

A line of the file is a JSON object. One of the kind `TRAINING` has the figures of a log line, and
one of the kind `SCORES` has the scores of a checkpoint. Rank 0 appends each line with a single
write. Curves are TFRecords of `tf.Event`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from albert.core.errors import UserError, reporting
from albert.core.files import open_atomically, parse_json, strict_json

METRICS = "metrics.jsonl"
TRAINING, SCORES = "training", "scores"

Line = dict[str, Any]
# Functions that `append` calls with each line.
LISTENERS: list[Callable[[Line], object]] = []


def append(folder: str, kind: str, step: int, values: Mapping[str, Any]) -> None:
    """Appends a line, non-finite numbers as null; raises a `UserError` if it cannot be written."""
    path = os.path.join(folder, METRICS)
    line = {"kind": kind, "step": int(step), "time": round(time.time(), 3), **values}
    with reporting(f"{path} cannot be written"), open(path, "a", encoding="utf-8") as file:
        file.write(strict_json(line) + "\n")
    for listener in LISTENERS:
        listener(line)


def read(folder: str) -> list[Line]:
    """Returns the complete lines; an empty list if the file does not exist."""
    return [line for _, line in _lines_of(_content_of(folder))]


def deciding_score(folder: str) -> tuple[str, float] | None:
    """Returns the last score that decides which checkpoint is best, with its name, or None.

    It is NaN if it was not finite. Without true answers there are no scores.
    """
    for line in reversed(read(folder)):
        if line["kind"] == SCORES and (name := line["best_by"]) in line:
            return name, float("nan") if line[name] is None else line[name]
    return None


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


class Curves:
    """Writes the curves of a folder to a new file; a disk error raises `tf.errors.OpError`.

    TensorFlow's own writer uses a thread. If the disk is full, that thread prints a traceback, and
    the next point raises an unrelated error in some later training step.
    """

    def __init__(self, folder: str, suffix: str = ""):
        """Creates the folder, and in it a file whose name ends in `suffix`."""
        os.makedirs(folder, exist_ok=True)
        now = time.time()
        # The process and the suffix keep two files apart that are created in the same second.
        name = f"events.out.tfevents.{now:010.0f}.{socket.gethostname()}.{os.getpid()}{suffix}"
        self._writer = tf.io.TFRecordWriter(os.path.join(folder, name))
        self._write(tf.Event(wall_time=now, file_version="brain.Event:2"))

    def add(self, step: int, **values: float) -> None:
        """Adds a point to each curve named in `values`."""
        points = [tf.Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._write(tf.Event(wall_time=time.time(), step=step, summary=tf.Summary(value=points)))

    def _write(self, event: tf.Event) -> None:
        self._writer.write(event.SerializeToString())
        # So that TensorBoard sees the point; this takes less than a millisecond.
        self._writer.flush()

    def close(self) -> None:
        """Closes the file."""
        self._writer.close()
