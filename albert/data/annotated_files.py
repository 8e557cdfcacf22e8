"""Files of annotated texts: columns as in CoNLL, or JSON."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Collection
from typing import Any, NamedTuple

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

    @classmethod
    def of(cls, settings: Any) -> ReadOptions:
        """Returns the options in the settings of a training or a check."""
        return cls(*(getattr(settings, name) for name in cls._fields))


class AnnotatedFile:
    """A file of annotated texts.

    Attributes:
      form: the name of its form.
      inside: after reading, where spans begin that begin or end inside a word.
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
        self.inside = list[SourceLine]()
        self.unusual = {_TRIMMED: list[SourceLine](), **texts.unusual}

    def read(self, labels: Collection[str], bad: BadRows) -> list[AnnotatedText]:
        """Returns the texts; `bad` receives those that cannot be used, and the caller finishes it.

        `labels` are those that are allowed; empty for any. Raises a `UserError` if the file has no
        texts, or is not valid.
        """
        texts = list[AnnotatedText]()
        for location, content in self._texts:
            try:
                texts.append(self._checked(location, self._texts.parse(location, content), labels))
            except UnusableTextError as e:
                bad.add(e.location.name, e.reason, e.detail)
        if not texts and not bad.counts:
            raise UserError(f"{self.path} has no texts")
        return texts

    def log(self) -> None:
        """Logs how many spans are unusual, and what was ignored."""
        for what, locations in self.unusual.items():
            if locations:
                first = locations[0].name
                LOG.warning("%s: %d spans %s; first: %s", self.path, len(locations), what, first)
        for what, count in self.ignored.items():
            if count:
                LOG.info("%s: ignored %d %s", self.path, count, what)

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
        edges = {edge for word in raw.words for edge in word}
        self.inside += [where for span, where in pairs if not edges >= {span.start, span.end}]
        return AnnotatedText(location, raw.text, raw.words, [span for span, _ in pairs])

    def _span(self, text: str, raw: RawSpan) -> Span:
        """Returns a checked span, without white space at its edges."""
        location, *_, label, stated, shown = raw
        edges = _edges(text, raw, self._offsets)
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
        self.unusual[_TRIMMED] += [location] * (part.strip() != part)
        start, end = end - len(part.lstrip()), start + len(part.rstrip())
        return Span(start, end, text[start:end], label)

    @functools.cached_property
    def _hint(self) -> str:
        """Returns the advice for offsets that count something else, if all texts agree with it."""
        texts, units, count = AnnotatedFile(self.path)._texts, OFFSETS, 0
        for location, content in texts:
            with contextlib.suppress(UnusableTextError):
                text, _, spans = texts.parse(location, content)
                for span in (span for span in spans if span.text is not None):
                    count += 1
                    parts = {u: text[slice(*_edges(text, span, u) or (0, 0))] for u in units}
                    units = tuple(unit for unit in units if _is_same(span.text, parts[unit]))
        return f"; all texts of spans agree with --offsets={units[0]}" if units and count else ""


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
    if unit != CHARACTERS:
        start, end = (_characters(text, unit).get(offset, -1) for offset in (start, end))
    return (start, end) if 0 <= start < end <= len(text) else None
