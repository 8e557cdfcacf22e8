"""Files of annotated texts: columns as in CoNLL, or JSON; see `read_annotated`."""

from __future__ import annotations

import bisect
import contextlib
import itertools
from collections.abc import Collection, Sequence
from typing import NamedTuple

from albert.core.errors import UserError
from albert.core.log import LOG
from albert.data.annotation_columns import ColumnTexts
from albert.data.annotation_records import JsonTexts, is_json
from albert.data.annotations import AnnotatedText, RawSpan, RawText, UnusableTextError
from albert.data.bad_rows import BadRows
from albert.data.tables import SourceLine, read_whole_lines
from albert.report.spans import Span

# Number of lines from which the format is recognized.
_HEAD = 32
CHARACTERS = "characters"
# How much offsets count for a character: functions of the character and of the next one. The last
# one counts no carriage return before a line feed.
_COUNTS = {
    CHARACTERS: lambda char, following: 1,
    "utf16": lambda char, following: 1 + (char > "\uffff"),
    "bytes": lambda char, following: len(char.encode(errors="surrogatepass")),
    "lines": lambda char, following: char + following != "\r\n",
}
OFFSETS = tuple(_COUNTS)


class ReadOptions(NamedTuple):
    """How to read a file.

    Attributes:
      offsets: what the offsets in JSON count, one of `OFFSETS`.
      token_column, tag_column: the columns to read, from 1; None for what `ColumnTexts` says.
    """

    offsets: str = CHARACTERS
    token_column: int | None = None
    tag_column: int | None = None


class _OffsetError(UnusableTextError):
    """A span is not at its offsets."""


class AnnotatedFile:
    """A file of annotated texts; `form` is the name of its form."""

    def __init__(self, path: str, is_labeled: bool = True, options: ReadOptions | None = None):
        """Recognizes the form; raises a `UserError` if the file cannot be read.

        Without `is_labeled`, the texts have no spans, and the file may lack them.
        """
        options = options or ReadOptions()
        self.path, self._offsets = path, options.offsets
        lines = itertools.islice(read_whole_lines(path), _HEAD)
        texts: JsonTexts | ColumnTexts
        if is_json("".join(line for _, line in lines)):
            texts = JsonTexts(path, is_labeled)
        else:
            texts = ColumnTexts(path, is_labeled, options.token_column, options.tag_column)
        self._texts, self.form = texts, texts.form

    def read(self, labels: Collection[str] = (), bad: BadRows | None = None) -> list[AnnotatedText]:
        """Returns the texts; logs how many spans have an unusual form, and what was ignored.

        Args:
          labels: the labels that are allowed; empty for any.
          bad: receives the texts that cannot be used; without it, the first one is an error.

        Raises:
          UserError: the file has no texts, or a text cannot be used.
        """
        texts, trimmed, hint = list[AnnotatedText](), list[SourceLine](), None
        for location, content in self._texts:
            try:
                raw = self._texts.parse(location, content)
                pairs = zip(raw.locations, raw.spans, strict=True)
                spans = [self._span(raw.text, *pair, trimmed) for pair in pairs]
                texts.append(_checked(location, raw, spans, labels))
            except UnusableTextError as e:
                if isinstance(e, _OffsetError) and hint is None:
                    hint = self._hint()
                advice = hint or "" if isinstance(e, _OffsetError) else ""
                if bad is None:
                    raise UserError(f"{e}{advice}") from e
                bad.add(e.location.name, e.reason + advice, e.detail)
        if not texts and not (bad and bad.counts):
            raise UserError(f"{self.path} has no texts")
        unusual = {
            **self._texts.unusual,
            "begin or end with white space, which is removed": trimmed,
        }
        for what, locations in unusual.items():
            warn_of_spans(self.path, locations, what)
        for what, count in self._texts.ignored.items():
            LOG.info("%s: ignored %d %s", self.path, count, what)
        return texts

    def _span(
        self, text: str, location: SourceLine, raw: RawSpan, trimmed: list[SourceLine]
    ) -> Span:
        """Returns a span without white space at its edges, which `trimmed` receives then."""
        edges = _edges(text, raw, self._offsets)
        if edges is None:
            message = "the span %s is not in the text of %s characters"
            raise _OffsetError(location, message, raw.shown, len(text))
        start, end = edges
        part = text[start:end]
        if raw.text is not None and not _is_same(raw.text, part):
            raise _OffsetError(location, "the text of the span %s is not %s", raw.shown, part)
        if not isinstance(raw.label, str) or not raw.label.strip() or not raw.label.isprintable():
            raise UnusableTextError(location, "the span %s has no label", raw.shown)
        if not part.strip():
            raise UnusableTextError(location, "the span %s has only white space", raw.shown)
        start, end = start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())
        trimmed += [location] * (text[start:end] != part)
        return Span(start, end, text[start:end], raw.label)

    def _hint(self) -> str:
        """Returns the advice for offsets that count something else; "" if they do not."""
        texts, fits = AnnotatedFile(self.path)._texts, dict.fromkeys(OFFSETS, True)
        number = 0
        for location, content in texts:
            with contextlib.suppress(UnusableTextError):
                raw = texts.parse(location, content)
                for span in raw.spans:
                    number += span.text is not None
                    for unit in OFFSETS if span.text is not None else ():
                        edges = _edges(raw.text, span, unit) or (0, 0)
                        fits[unit] &= _is_same(span.text, raw.text[slice(*edges)])
        units = [unit for unit in OFFSETS if fits[unit] and number]
        return (
            f"; the texts of all spans are at offsets in {units[0]}: pass --offsets={units[0]}"
            if units
            else ""
        )


def warn_of_spans(path: str, locations: Sequence[SourceLine], what: str) -> None:
    """Logs how many spans, in which locations, are unusual."""
    if locations:
        first = locations[0].name
        LOG.warning("%s: %d spans %s; first: %s", path, len(locations), what, first)


def _checked(
    location: SourceLine, raw: RawText, spans: list[Span], labels: Collection[str]
) -> AnnotatedText:
    """Returns a text with its spans in order; raises an error for overlaps and other labels."""
    pairs = sorted(zip(spans, raw.locations, strict=True))
    for (one, _), (other, its_location) in itertools.pairwise(pairs):
        if other.start < one.end:
            raise UnusableTextError(its_location, "%s and %s overlap", one.text, other.text)
    for span, its_location in pairs:
        if labels and span.label not in labels:
            known = ", ".join(labels).replace("%", "%%")
            raise UnusableTextError(its_location, f"the label %s is not one of {known}", span.label)
    return AnnotatedText(
        location, raw.text, raw.words, [span for span, _ in pairs], [line for _, line in pairs]
    )


def _is_same(stated: object, text: str) -> bool:
    """Returns whether the text that a span has is that at its offsets, except for white space."""
    return isinstance(stated, str) and stated.split() == text.split()


def _edges(text: str, span: RawSpan, unit: str) -> tuple[int, int] | None:
    """Returns the start and end of a span in characters; None if they are not in the text."""
    edges = span.start, span.end
    if not all(type(edge) is int and edge >= 0 for edge in edges):
        return None
    if unit != CHARACTERS:
        following = itertools.chain(text[1:], " ")
        ends = [*itertools.accumulate(map(_COUNTS[unit], text, following), initial=0)]
        numbers = [bisect.bisect_left(ends, edge) for edge in edges]
        if any(ends[number : number + 1] != [e] for number, e in zip(numbers, edges, strict=True)):
            return None
        edges = numbers[0], numbers[1]
    return edges if edges[0] < edges[1] <= len(text) else None
