"""Texts with labeled spans, and the tags of their words.

A tag such as B-PER belongs to a word: B, I and E begin, continue and end a span, S is a span of one
word, and O is outside of spans. IOB1, IOB2 (BIO) and BIOES are different uses of these tags.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from albert.checkpoints.labels import are_numbers
from albert.core.errors import UserError
from albert.core.text import listed
from albert.report.spans import Span
from albert.tables.tables import SourceLine

# The label of tags without one, such as B; also that of seqeval.
_NO_LABEL = "_"
# The prefixes of BILOU (U, L) and BMES (M) in BIOES.
AS_BIOES = str.maketrans("ULM", "SEI")
# The forms of tags with a name in models of others.
_FORMS = [
    re.compile(form.format("(?P<prefix>[BIESULM])", "(?P<name>.+)"), re.IGNORECASE)
    for form in ("{0}[-_:.]{1}", "{1}[-_:.]{0}")
]


class AnnotatedText(NamedTuple):
    """A text of a file.

    Attributes:
      location: its first line.
      text: the text; the tokens of CoNLL are joined with spaces.
      words: starts and ends of its words.
      spans: its spans, in order, which do not overlap.
    """

    location: SourceLine
    text: str
    words: list[tuple[int, int]]
    spans: list[Span]

    def cut(self, parts: Iterable[tuple[int, int]]) -> int:
        """Returns the number of spans that begin or end inside a part of the text."""
        edges = {edge for part in parts for edge in part}
        return sum(not edges >= {span.start, span.end} for span in self.spans)

    def tags(self) -> list[str]:
        """Returns the tag of BIO of each word; a span has all words with characters in it."""
        tags = ["O"] * len(self.words)
        starts, ends = ([word[side] for word in self.words] for side in range(2))
        for span in self.spans:
            first, end = bisect.bisect(ends, span.start), bisect.bisect_left(starts, span.end)
            tags[first:end] = [f"I-{span.label}"] * (end - first)
            if first < end:
                tags[first] = f"B-{span.label}"
        return tags


def as_bioes(tags: Sequence[str]) -> list[str]:
    """Returns the tags of any model as O, B-NAME and so on, in the same order.

    If tags are bare names, equal neighbors are one entity, as in `transformers`. Raises a
    `UserError` for other tags, such as parts of speech, numbers, and B and I without a name.
    """
    named, ours = [tag for tag in tags if tag.upper() != "O"], dict[str, str]()
    for tag in named:
        if part := _FORMS[0].fullmatch(tag) or _FORMS[1].fullmatch(tag):
            ours[tag] = f"{part['prefix'].upper().translate(AS_BIOES)}-{part['name']}"
    if not {"B-", "I-"} & {tag[:2] for tag in ours.values()}:
        are_names = len(named) < len(tags) and not are_numbers(named) and max(map(len, named)) > 1
        ours = {tag: f"I-{tag}" for tag in named if are_names}
    if len(ours) < len(named):
        raise UserError(
            f"the tags of the model mark no entities: {listed(tags, most=20)}; they must be O and "
            "names such as PER, or B-PER and I-PER: see id2label in its config.json"
        )
    return [ours.get(tag, "O") for tag in tags]


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


def write_annotated(
    path: str, texts: Iterable[AnnotatedText], predicted: Iterable[Sequence[Span]]
) -> None:
    """Writes texts with spans that a model has found, as JSON lines that `read_annotated` reads."""
    with open(path, "w", encoding="utf-8") as file:
        for text, spans in zip(texts, predicted, strict=True):
            kept = [{k: v for k, v in s._asdict().items() if k != "context"} for s in spans]
            kept = [{k: v for k, v in span.items() if v is not None} for span in kept]
            file.write(json.dumps({"text": text.text, "spans": kept}) + "\n")
