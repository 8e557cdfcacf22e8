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
_TRIMMED = "begin or end with white space, which is removed"
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
    """A file of annotated texts.

    Attributes:
      form: the name of its form.
      unusual: after reading, where spans begin that are unusual, by what is.
      ignored: after reading, how much was ignored, by what it is.
    """

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
        self._texts, self.form, self.ignored = texts, texts.form, texts.ignored
        self.unusual = {_TRIMMED: list[SourceLine](), **texts.unusual}

    def read(self, labels: Collection[str], bad: BadRows) -> list[AnnotatedText]:
        """Returns the texts.

        Args:
          labels: the labels that are allowed; empty for any.
          bad: receives the texts that cannot be used; the caller finishes it.

        Raises:
          UserError: the file has no texts, or is not valid.
        """
        texts, hint = list[AnnotatedText](), None
        for location, content in self._texts:
            try:
                raw = self._texts.parse(location, content)
                pairs = zip(raw.locations, raw.spans, strict=True)
                spans = [self._span(raw.text, *pair) for pair in pairs]
                texts.append(_checked(location, raw, spans, labels))
            except _OffsetError as e:
                hint = self._hint() if hint is None else hint
                bad.add(e.location.name, e.reason + hint, e.detail)
            except UnusableTextError as e:
                bad.add(e.location.name, e.reason, e.detail)
        if not texts and not bad.counts:
            raise UserError(f"{self.path} has no texts")
        return texts

    def log(self) -> None:
        """Logs how many spans are unusual, and what was ignored."""
        for what, locations in self.unusual.items():
            warn_of_spans(self.path, locations, what)
        for what, count in self.ignored.items():
            LOG.info("%s: ignored %d %s", self.path, count, what)

    def _span(self, text: str, location: SourceLine, raw: RawSpan) -> Span:
        """Returns a checked span, without white space at its edges."""
        edges = _edges(text, raw, self._offsets)
        if edges is None:
            reason = "the span ... is not in the text of ... characters"
            raise _OffsetError(location, reason, raw.shown, len(text))
        start, end = edges
        part = text[start:end]
        if raw.text is not None and not _is_same(raw.text, part):
            raise _OffsetError(location, "the text of the span ... is not ...", raw.shown, part)
        if not isinstance(raw.label, str) or not raw.label.strip() or not raw.label.isprintable():
            raise UnusableTextError(location, "the span ... has no label", raw.shown)
        if not part.strip():
            raise UnusableTextError(location, "the span ... has only white space", raw.shown)
        start, end = start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())
        self.unusual[_TRIMMED] += [location] * (text[start:end] != part)
        return Span(start, end, text[start:end], raw.label)

    def _hint(self) -> str:
        """Returns the advice for offsets that count something else, if all texts agree with it."""
        texts, matches, count = AnnotatedFile(self.path)._texts, dict.fromkeys(OFFSETS, 0), 0
        for location, content in texts:
            with contextlib.suppress(UnusableTextError):
                raw = texts.parse(location, content)
                stated = [span for span in raw.spans if span.text is not None]
                count += len(stated)
                for span, unit in itertools.product(stated, OFFSETS):
                    part = raw.text[slice(*_edges(raw.text, span, unit) or (0, 0))]
                    matches[unit] += _is_same(span.text, part)
        units = [unit for unit in OFFSETS if matches[unit] == count > 0]
        return f"; all texts of spans agree with --offsets={units[0]}" if units else ""


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
            raise UnusableTextError(its_location, "... and ... overlap", one.text, other.text)
    for span, its_location in pairs:
        if labels and span.label not in labels:
            reason = f"the label ... is not one of {', '.join(labels)}"
            raise UnusableTextError(its_location, reason, span.label)
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
