"""Files of texts with labeled spans: JSON lines with spans, or the columns of CoNLL with tags.

A tag such as B-PER belongs to a word: B, I and E begin, continue and end a span, S is a span of one
word, and O is outside of spans. IOB1, IOB2 (BIO) and BIOES are different uses of these tags.
"""

from __future__ import annotations

import bisect
import itertools
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from albert.core.errors import UserError
from albert.core.log import LOG
from albert.data.tables import SourceLine, read_json_lines, read_lines
from albert.report.spans import Span
from albert.tokenizers.wordpiece_text import words_in

# The label of tags without one, such as B; also that of seqeval.
_NO_LABEL = "_"


class AnnotatedText(NamedTuple):
    """A text of a file.

    Attributes:
      location: its first line.
      text: the text; the tokens of CoNLL are joined with spaces.
      words: starts and ends of its words.
      spans: its spans, in order, which do not overlap.
      locations: the line in which each span begins.
    """

    location: SourceLine
    text: str
    words: list[tuple[int, int]]
    spans: list[Span]
    locations: list[SourceLine]

    def tags(self, is_bioes: bool = False) -> list[str]:
        """Returns the tag of each word; a span has all words with characters in it."""
        tags = ["O"] * len(self.words)
        starts, ends = ([word[side] for word in self.words] for side in range(2))
        for span in self.spans:
            first, end = bisect.bisect(ends, span.start), bisect.bisect_left(starts, span.end)
            prefixes = "B" + "I" * (end - first - 1)
            if is_bioes:
                prefixes = "S" if len(prefixes) == 1 else prefixes[:-1] + "E"
            tags[first:end] = [f"{prefix}-{span.label}" for prefix in prefixes[: end - first]]
        return tags


def spans_of_tags(
    text: str, words: Sequence[tuple[int, int]], tags: Iterable[str], shares: Sequence[float] = ()
) -> Iterator[tuple[int, Span]]:
    """Yields spans, each after the number of its first word, as seqeval finds them.

    A span also begins without B or S where the label changes, and after O, E or S.

    Args:
      words: starts and ends of the text's words.
      shares: the probabilities of the tags; a span has the lowest one. Empty if unknown.
    """
    first, label, before = 0, "", "O"
    for number, tag in enumerate((*tags, "O")):
        prefix, _, new_label = tag.partition("-")
        if prefix in ("B", "S", "O") or before in ("O", "E", "S") or new_label != label:
            if before != "O":
                start, end = words[first][0], words[number - 1][1]
                share = min(shares[first:number], default=None)
                yield first, Span(start, end, text[start:end], label or _NO_LABEL, share)
            first = number
        label, before = new_label, prefix


def read_annotated(
    path: str, labels: Collection[str] = (), is_labeled: bool = True
) -> list[AnnotatedText]:
    """Reads a file, whose first line tells the format; logs how many spans have an unusual form.

    Raises a `UserError` if the file cannot be read or has no texts, or a row is invalid.

    Args:
      labels: the labels that are allowed; empty for any.
      is_labeled: whether to read the spans; if not, they may be missing.
    """
    first = next((line for _, line in read_lines(path) if line.strip()), "")
    read = _read_json if re.match(r'\s*{\s*"', first) else _read_columns
    texts, odd = list(read(path, is_labeled)), list[SourceLine]()
    if not texts:
        raise UserError(f"{path} has no texts")
    for _, _, words, spans, locations in texts:
        edges = {edge for word in words for edge in word}
        for span, location in zip(spans, locations, strict=True):
            if labels and span.label not in labels:
                known = ", ".join(labels)
                raise location.error(f"the label {span.label!r:.80} is not one of {known}")
            odd += [location] * (not edges >= {span.start, span.end})
    _warn(path, odd, "begin or end inside a word, and are learned as whole words")
    return texts


def _read_columns(path: str, is_labeled: bool) -> Iterator[AnnotatedText]:
    """Yields sentences, whose lines have a token in the first column and a tag in the last one."""
    odd = list[SourceLine]()
    for block in _blocks(path):
        words, tags, text = list[tuple[int, int]](), list[str](), ""
        for location, (token, *others) in block:
            tag = (others or [""])[-1] if is_labeled else "O"
            if not re.fullmatch(r"O|[BIES](-\S+)?", tag) or not tag.isprintable():
                raise location.error(
                    f"the last column must be O, B-NAME or similar, not {tag!r:.80}"
                )
            tags.append(tag)
            words.append((len(text), len(text) + len(token)))
            text += f"{token} "
        spans, locations = list[Span](), list[SourceLine]()
        for first, span in spans_of_tags(text, words, tags):
            spans.append(span)
            locations.append(block[first][0])
            odd += locations[-1:] * (tags[first][0] not in "BS")
        yield AnnotatedText(block[0][0], text[:-1], words, spans, locations)
    _warn(path, odd, "begin without B- or S-, as in IOB1")


def _blocks(path: str) -> Iterator[list[tuple[SourceLine, list[str]]]]:
    """Yields lines up to an empty or a -DOCSTART- line, split at tabs if any, else at spaces."""
    block, width = list[tuple[SourceLine, list[str]]](), 0
    for location, line in read_lines(path):
        columns = line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))
        if not line.strip() or line.startswith("-DOCSTART-"):
            if block:
                yield block
            block = []
            continue
        width = width or len(columns)
        if len(columns) != width or not columns[0].strip():
            raise location.error(
                f"{width} columns are needed, as in the first line, not {line!r:.80}"
            )
        block.append((location, columns))
    if block:
        yield block


def _read_json(path: str, is_labeled: bool) -> Iterator[AnnotatedText]:
    for location, record in read_json_lines(path):
        text, values = record.get("text"), record.get("spans") if is_labeled else []
        if not isinstance(text, str) or not isinstance(values, list):
            raise location.error('"text" must be a text, and "spans" a list')
        spans = sorted(_span(location, text, value) for value in values)
        for one, other in itertools.pairwise(spans):
            if other.start < one.end:
                raise location.error(f"{one.text!r:.80} and {other.text!r:.80} overlap")
        yield AnnotatedText(location, text, words_in(text), spans, [location] * len(spans))


def _span(location: SourceLine, text: str, value: Any) -> Span:
    values = value if isinstance(value, Mapping) else {}
    start, end, label = (values.get(name) for name in ("start", "end", "label"))
    if not (type(start) is type(end) is int and 0 <= start < end <= len(text)):
        raise location.error(f"the span {value!r:.80} is not in the text of {len(text)} characters")
    if not isinstance(label, str) or not label.strip() or not label.isprintable():
        raise location.error(f"the span {value!r:.80} has no label")
    if not text[start:end].strip():
        raise location.error(f"the span {value!r:.80} has only white space")
    return Span(start, end, text[start:end], label)


def _warn(path: str, locations: list[SourceLine], what: str) -> None:
    if locations:
        first = locations[0].line
        LOG.warning("%s: %d spans %s; first: line %d", path, len(locations), what, first)


def write_annotated(
    path: str, texts: Iterable[AnnotatedText], predicted: Iterable[Sequence[Span]]
) -> None:
    """Writes texts with spans that a model has found, as JSON lines that `read_annotated` reads."""
    with open(path, "w", encoding="utf-8") as file:
        for text, spans in zip(texts, predicted, strict=True):
            kept = [{k: v for k, v in s._asdict().items() if k != "context"} for s in spans]
            file.write(json.dumps({"text": text.text, "spans": kept}) + "\n")
