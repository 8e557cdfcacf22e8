"""The base class of files of annotated texts: the checks of their texts and spans."""

from __future__ import annotations

import abc
import collections
import contextlib
import functools
import itertools
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from albert.core.errors import UserError
from albert.report.spans import Span
from albert.tables.bad_rows import BadRows
from albert.tables.tables import SourceLine
from albert.tasks.entities.annotations import AnnotatedText
from albert.tasks.entities.settings import CHARACTERS, INCLUSIVE, OFFSETS, FormatSettings

_TRIMMED = "spans that begin or end with white space, which is removed"
# How much offsets count for a character: functions of the character and of the next one. The last
# one counts no carriage return before a line feed.
_COUNTS = {
    CHARACTERS: lambda char, following: 1,
    "utf16": lambda char, following: 1 + (char > "\uffff"),
    "bytes": lambda char, following: len(char.encode(errors="surrogatepass")),
    "lines": lambda char, following: char + following != "\r\n",
    # Characters, too, but the end of a span is that of its last character.
    INCLUSIVE: lambda char, following: 1,
}
# The share of spans that shows what offsets count if the file does not have the texts of spans.
_MOST = 0.9


class RawSpan(NamedTuple):
    """A span as a file has it, unchecked; `text` is None if the file has only its offsets.

    `location` is the line in which it begins, and `shown` represents it in messages.
    """

    location: SourceLine
    start: Any
    end: Any
    label: Any
    text: Any
    shown: Any


class RawText(NamedTuple):
    """A text as a file has it, with the starts and ends of its words."""

    text: str
    words: list[tuple[int, int]]
    spans: list[RawSpan]


class UnusableTextError(Exception):
    """A fault of one text of a file; its `reason` has "..." instead of `values`."""

    def __init__(self, location: SourceLine, reason: str, *values: object):
        super().__init__(location, reason, *values)
        self.location, self.reason = location, reason
        self.detail = f" ({', '.join(f'{value!r:.80}' for value in values)})" if values else ""


class AnnotatedFile(abc.ABC):
    """A file of annotated texts; `open_annotated` makes the object for its form.

    Attributes:
      form: the name of the form.
      is_labeled: whether texts need spans; otherwise they have none, and the file may lack them.
      notes: see `BadRows`.
    """

    form: str

    def __init__(self, path: str, is_labeled: bool, settings: FormatSettings):
        self.path, self.is_labeled, self.settings = path, is_labeled, settings
        self.notes = collections.Counter[str]()

    @abc.abstractmethod
    def __iter__(self) -> Iterator[tuple[SourceLine, Any]]:
        """Yields the location and the content of each text."""

    @abc.abstractmethod
    def parse(self, location: SourceLine, content: Any) -> RawText:
        """Returns the text with a content; raises an `UnusableTextError` if it has none."""

    def read(self, labels: Collection[str], bad: BadRows) -> list[AnnotatedText]:
        """Returns the texts; `bad` receives notes and other texts, and the caller finishes it.

        `labels` are those that are allowed; empty for any. Raises a `UserError` if the file has no
        texts, or is not valid.
        """
        texts = list[AnnotatedText]()
        for location, content in self:
            try:
                texts.append(self._checked(location, self.parse(location, content), labels))
            except UnusableTextError as e:
                bad.add(e.location.name, e.reason, e.detail)
        if not bad.counts and not (any(t.spans for t in texts) if self.is_labeled else texts):
            notes = "".join(f"; {note}: {count}" for note, count in self.notes.items())
            raise UserError(f"{self.path} has no {'entities' if texts else 'texts'}{notes}")
        inside = sum(text.cut(text.words) for text in texts)
        if inside and "offsets" not in self.settings.given and INCLUSIVE in self._hint:
            raise UserError(
                f"{self.path}: the ends of spans seem to be their last characters; pass "
                f"--offsets={INCLUSIVE} if this is so, otherwise --offsets={CHARACTERS}"
            )
        if inside:
            self.notes["spans that begin or end inside a word"] = inside
        bad.notes.update(self.notes)
        return texts

    def _checked(
        self, location: SourceLine, raw: RawText, labels: Collection[str]
    ) -> AnnotatedText:
        """Returns a text with its spans in order; raises an error for overlaps and other labels."""
        pairs = sorted((self._span(raw.text, span), span.location) for span in raw.spans)
        for (one, _), (other, where) in itertools.pairwise(pairs):
            if other.start < one.end:
                raise UnusableTextError(where, "... and ... overlap", one.text, other.text)
        for span, where in pairs:
            if labels and span.label not in labels:
                reason = f"the label ... is not one of {', '.join(labels)}"
                raise UnusableTextError(where, reason, span.label)
        return AnnotatedText(location, raw.text, raw.words, [span for span, _ in pairs])

    def _span(self, text: str, raw: RawSpan) -> Span:
        """Returns a checked span, without white space at its edges."""
        location, *_, label, stated, shown = raw
        edges = _edges(text, raw, self.settings.offsets)
        if edges is None:
            reason = "the span ... is not in the text of ... characters" + self._hint
            raise UnusableTextError(location, reason, shown, len(text))
        start, end = edges
        part = text[start:end]
        if stated is not None and not _is_same(stated, part):
            reason = "the text of the span ... is not ..." + self._hint
            raise UnusableTextError(location, reason, shown, part)
        if not isinstance(label, str) or not label.strip() or not label.isprintable():
            raise UnusableTextError(location, "the span ... has no label", shown)
        if not part.strip():
            raise UnusableTextError(location, "the span ... has only white space", shown)
        if part.strip() != part:
            self.notes[_TRIMMED] += 1
        start, end = end - len(part.lstrip()), start + len(part.rstrip())
        return Span(start, end, text[start:end], label)

    @functools.cached_property
    def _hint(self) -> str:
        """Returns the advice for offsets that count something else, if all spans agree with it."""
        units, stated, cut, fit = OFFSETS, 0, 0, list[bool]()
        # Counts of this object are those of a single pass.
        again = type(self)(self.path, True, self.settings)
        for location, content in again:
            with contextlib.suppress(UnusableTextError):
                text, words, spans = again.parse(location, content)
                starts, ends = ({word[side] for word in words} for side in range(2))
                for span in spans:
                    if span.text is not None:
                        stated += 1
                        parts = {u: text[slice(*_edges(text, span, u) or (0, 0))] for u in units}
                        units = tuple(u for u in units if _is_same(span.text, parts[u]))
                    start, end = _edges(text, span, INCLUSIVE) or (-1, -1)
                    fit.append(start in starts and end in ends)
                    # In Korean and other scripts without case, many particles have one character.
                    has_case = text[end - 1 : end].lower() != text[end - 1 : end].upper()
                    cut += has_case and end - 1 not in ends
        # Without the texts of spans, words show it: most of them would lose their last character.
        if not stated and sum(fit) > _MOST * len(fit) and 2 * cut > len(fit):
            units, stated = (INCLUSIVE,), len(fit)
        is_other = stated and units and units[0] != self.settings.offsets
        return f"; the spans agree with --offsets={units[0]}" if is_other else ""


def _is_same(stated: object, text: str) -> bool:
    """Returns whether the text that a span has is that at its offsets, except for white space."""
    return isinstance(stated, str) and stated.split() == text.split()


@functools.lru_cache(maxsize=len(OFFSETS))
def _characters(text: str, unit: str) -> dict[int, int]:
    """Returns the number of the first character at each offset of a text, also at its end."""
    following = itertools.chain(text[1:], " ")
    offsets = [*itertools.accumulate(map(_COUNTS[unit], text, following), initial=0)]
    return {offset: number for number, offset in reversed([*enumerate(offsets)])}


def _edges(text: str, span: RawSpan, unit: str) -> tuple[int, int] | None:
    """Returns the start and end of a span in characters; None if they are not in the text."""
    start, end = span.start, span.end
    if not (type(start) is type(end) is int):
        return None
    if unit == INCLUSIVE:
        end += 1
    elif unit != CHARACTERS:
        start, end = (_characters(text, unit).get(offset, -1) for offset in (start, end))
    return (start, end) if 0 <= start < end <= len(text) else None
