"""Answers that a training can use: those whose location in the context is known."""

from __future__ import annotations

import functools
import itertools
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from albert.tables.bad_rows import FIRST, LENIENT, BadRows
from albert.tables.tables import SourceLine

_SEVERAL = "the answer occurs several times in the context"
_ELSEWHERE = "the answer is not at its answer_start"
_MISSING = "the answer does not occur in the context"
_SHOWN = 40  # number of characters of an answer in a message

# What --on_bad_row=lenient ignores, as changes of a part of a text: spaces, Unicode form and case.
_FOLDS: Sequence[Callable[[str], str]] = (
    lambda part: " " if part.isspace() else part,
    lambda part: unicodedata.normalize("NFD", part),
    str.casefold,
)


def why_empty(context: str, question: str) -> str | None:
    """Returns the reason why no question can be used with this context or text, if any."""
    if not context.strip():
        return "the context is empty"
    return None if question.strip() else "the question is empty"


def usable_answer(
    context: str, answer: dict[str, Any], location: SourceLine | str, bad: BadRows
) -> dict[str, Any] | None:
    """Returns an answer as in SQuAD's JSON, with its offset in the context.

    Without an `answer_start`, it must occur exactly once. Returns None, after adding the `location`
    to `bad`, if the answer cannot be used.
    """
    text, start = answer["text"], answer.get("answer_start")
    if not text.strip():
        bad.add(location, "the answer is empty")
        return None
    detail = ""
    if start is not None:
        is_there = start >= 0 and context.startswith(text, start)
        reason = "" if is_there else _ELSEWHERE
    else:
        text = text.strip()
        start, reason = context.find(text), ""
        if start < 0:
            reason, detail = _MISSING, _visible(text)
        elif context.find(text, start + 1) >= 0:
            # At least twice, if it overlaps itself.
            times = max(2, context.count(text))
            reason, detail = _SEVERAL, f"{_visible(text)}, {times} times"
    if reason:
        is_used = reason == _SEVERAL and bad.action == FIRST
        if reason != _SEVERAL and bad.action == LENIENT:
            spans = _similar(context, text)
            spans = [span for span in spans if span[0] == start] or spans
            if is_used := len(spans) == 1:
                start, text = spans[0][0], context[slice(*spans[0])]
        if reason == _MISSING and not is_used and bad.names(reason):
            similar = [context[slice(*span)] for span in _similar(context, text)[:1]]
            detail += "".join(f"; the context has {_visible(own)}" for own in similar)
        bad.add(location, reason, detail and f" ({detail})", is_used)
        if not is_used:
            return None
    return {**answer, "text": text, "answer_start": start}


def _visible(text: str) -> str:
    """Returns the beginning of a text in quotation marks, with escapes for what does not show."""
    shown = repr(text[:_SHOWN]).replace("  ", " \\x20")
    return "".join(
        c.encode("ascii", "backslashreplace").decode() if unicodedata.combining(c) else c
        for c in shown
    )


def _similar(context: str, text: str) -> list[tuple[int, int]]:
    """Returns the starts and ends of all parts that differ in nothing but `_FOLDS`."""
    (folded, offsets), (answer, _) = _folded(context), _folded(text.strip())
    spans, at = [], folded.find(answer)
    while at >= 0:
        if {at, at + len(answer)} <= offsets.keys():
            spans.append((offsets[at], offsets[at + len(answer)]))
        at = folded.find(answer, at + 1)
    return spans


# Consecutive questions have the same context.
@functools.lru_cache(maxsize=16)
def _folded(text: str) -> tuple[str, dict[int, int]]:
    """Returns a changed text, and the offset in the text for each offset where a part begins."""
    folded, offsets, length = [], {0: 0}, 0
    for _, end in itertools.pairwise([0, *_ends(text)]):
        part = text[offsets[length] : end]
        for fold in _FOLDS:
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
