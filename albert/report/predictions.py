"""Predictions of a model: `predictions.jsonl`, and the self-contained page that contains it.

A line of the file is a sample, which is the JSON object of one example; docs/looking.md describes
its keys. The last key is the passage. None replaces a number that is not finite, and means unknown.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from albert.core.errors import UserError, reporting
from albert.core.files import open_atomically, parse_json
from albert.report import PAGE, PREDICTIONS

_TEMPLATE = os.path.join(os.path.dirname(__file__), "page.html")
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

Sample = dict[str, Any]


class View(NamedTuple):
    """Samples (an iterator if they may not fit into memory), and what the page shows above them.

    `labels` are those of a classification, in the order of their ids.
    """

    title: str
    scores: Mapping[str, float]
    samples: Iterable[Sample] = ()
    labels: Sequence[str] = ()


@contextlib.contextmanager
def writing_samples(folder: str, view: View) -> Iterator[Callable[[Sample], object]]:
    """Writes a run's predictions, and its page at the end of the `with` block.

    Yields a function that adds a sample to those of the view. Raises a `UserError` if a file cannot
    be written.
    """
    path = os.path.join(folder, PREDICTIONS)
    with open_atomically(path, "wb") as file:
        file.writelines(map(_line, view.samples))
        yield lambda sample: file.write(_line(sample))
    with open(path, "rb") as lines:
        write_page(os.path.join(folder, PAGE), view, lines)


def write_samples(folder: str, view: View) -> None:
    """Writes a run's predictions and its page; raises as `writing_samples`."""
    with writing_samples(folder, view):
        pass


def write_page(path: str, view: View, lines: Iterable[bytes] = ()) -> None:
    """Writes only the page, of `lines` of samples or else of the view; raises as above."""
    with open(_TEMPLATE, "rb") as template:
        before, between, after = template.read().split(b"{{data}}")
    scores = {name: finite(score) for name, score in view.scores.items()}
    head = {"title": view.title, "scores": scores, "labels": view.labels}
    previous = b""
    with open_atomically(path, "wb") as file:
        file.write(before + _in_page(_encode(head).encode()) + between)
        for line in lines or map(_line, view.samples):
            # Neighbors share passages, so the page has each once. As quotes in texts are escaped,
            # only the key can have these characters.
            sample, _, passage = line.rpartition(b',"passage":')
            file.write(_in_page(line if passage != previous else sample + b"}\n"))
            previous = passage
        file.write(after)


def _in_page(data: bytes) -> bytes:
    """Returns JSON in which no text can end the element or begin another one."""
    return data.replace(b"<", b"\\u003c")


def _line(sample: Sample) -> bytes:
    return _encode(sample).encode() + b"\n"


def read_samples(folder: str) -> Iterator[Sample]:
    """Yields the samples of a run; raises a `UserError` if the file is unreadable or damaged."""
    path = os.path.join(folder, PREDICTIONS)
    with reporting(f"{path} cannot be read"), open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            sample = parse_json(line, f"{path}, line {number}")
            if not isinstance(sample, dict) or not {"id", "answer"} <= sample.keys():
                raise UserError(f"{path}, line {number} is not a prediction")
            yield sample


def finite(value: float | None) -> float | None:
    """Returns the number if JSON can represent it, otherwise None."""
    return None if value is None or not math.isfinite(value) else value


def rounded(value: float | None) -> float | None:
    """Returns a number rounded for display, or None if it is not finite."""
    known = finite(value)
    return None if known is None else round(float(known), 4)
