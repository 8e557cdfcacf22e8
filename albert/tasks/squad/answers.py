"""Answers that a training can use: those whose location in the context is known."""

from __future__ import annotations

import functools
import itertools
import unicodedata
from collections.abc import Callable, Collection, Iterator
from typing import Any

from albert.data.bad_rows import FIRST, LENIENT, BadRows
from albert.data.tables import SourceLine

_SEVERAL = "the answer occurs several times in the context"
_ELSEWHERE = "the answer is not at its answer_start"
_MISSING = "the answer does not occur in the context"
_SHOWN = 40  # number of characters of an answer in a message

# What --on_bad_row=lenient ignores: changes of a part of a text, by the name of a difference.
_FOLDS: dict[str, Callable[[str], str]] = {
    "spaces": lambda part: " " if part.isspace() else part,
    "Unicode form": lambda part: unicodedata.normalize("NFD", part),
    "case": str.casefold,
}


def why_empty(context: str, question: str) -> str | None:
    """Returns the reason why no question can be used with this context or text, if any."""
    if not context.strip():
        return "the context is empty"
    return None if question.strip() else "the question is empty"


def is_at(context: str, text: str, start: int) -> bool:
    """Returns whether an answer, which is not empty, is at a location."""
    return start >= 0 and context.startswith(text, start) and bool(text.strip())


def usable_answer(
    context: str, text: str, start: int | None, location: SourceLine | str, bad: BadRows
) -> dict[str, Any] | None:
    """Returns an answer as in SQuAD's JSON, with its offset in the context.

    Without `start`, it must occur exactly once. Returns None, after adding the `location` to `bad`,
    if the answer cannot be used.
    """
    if not text.strip():
        bad.add(location, "the answer is empty")
        return None
    text = text if start is not None else text.strip()
    start, reason, detail = _offset_of(context, text, start)
    if reason:
        is_used = reason == _SEVERAL and bad.action == FIRST
        if reason != _SEVERAL and bad.action == LENIENT:
            spans = _similar(context, text)
            spans = [span for span in spans if span[0] == start] or spans
            if is_used := len(spans) == 1:
                start, text = spans[0][0], context[slice(*spans[0])]
        if reason == _MISSING and not is_used and bad.names(reason):
            detail += _difference(context, text)
        bad.add(location, reason, detail and f" ({detail})", is_used)
        if not is_used:
            return None
    return {"text": text, "answer_start": start}


def _offset_of(context: str, text: str, start: int | None) -> tuple[int, str, str]:
    """Returns the location of an answer, and why it is not known, with a detail."""
    if start is not None:
        return start, "" if is_at(context, text, start) else _ELSEWHERE, ""
    start = context.find(text)
    if start < 0:
        return start, _MISSING, _visible(text)
    if context.find(text, start + 1) < 0:
        return start, "", ""
    # At least twice, if it overlaps itself.
    return start, _SEVERAL, f"{_visible(text)}, {max(2, context.count(text))} times"


def _difference(context: str, text: str) -> str:
    """Returns how the context has a missing answer, for a message; "" if it has not."""
    for start, end in _similar(context, text)[:1]:
        own = context[start:end]
        names = [
            name
            for name in _FOLDS
            if _folded(own, _FOLDS.keys() - {name})[0] != _folded(text, _FOLDS.keys() - {name})[0]
        ]
        return f"; the context has {_visible(own)}, with other {' and '.join(names)}"
    return ""


def _visible(text: str) -> str:
    """Returns the beginning of a text in quotation marks, with escapes for what does not show."""
    shown = repr(text[:_SHOWN]).replace("  ", " \\x20")
    return "".join(
        c.encode("ascii", "backslashreplace").decode() if unicodedata.combining(c) else c
        for c in shown
    )


def _similar(context: str, text: str) -> list[tuple[int, int]]:
    """Returns the starts and ends of all parts that differ in nothing but `_FOLDS`."""
    (folded, offsets), (answer, _) = _folded(context, _FOLDS), _folded(text.strip(), _FOLDS)
    spans, at = [], folded.find(answer)
    while at >= 0:
        if {at, at + len(answer)} <= offsets.keys():
            spans.append((offsets[at], offsets[at + len(answer)]))
        at = folded.find(answer, at + 1)
    return spans


def _folded(text: str, names: Collection[str]) -> tuple[str, dict[int, int]]:
    """Returns a changed text, and the offset in the text for each offset where a part begins."""
    return _fold(text, frozenset(names))


# Consecutive questions have the same context.
@functools.lru_cache(maxsize=16)
def _fold(text: str, names: frozenset[str]) -> tuple[str, dict[int, int]]:
    folds = [fold for name, fold in _FOLDS.items() if name in names]
    folded, offsets, length = [], {0: 0}, 0
    for _, end in itertools.pairwise([0, *_ends(text)]):
        part = text[offsets[length] : end]
        for fold in folds:
            part = fold(part)
        folded.append(part)
        length += len(part)
        offsets[length] = end
    return "".join(folded), offsets


def _ends(text: str) -> Iterator[int]:
    """Yields the ends of a text's parts: a run of white space, or a character with its marks."""
    for position, (before, character) in enumerate(itertools.pairwise(text), start=1):
        is_space = before.isspace() and character.isspace()
        if not is_space and not unicodedata.combining(character):
            yield position
    if text:
        yield len(text)
