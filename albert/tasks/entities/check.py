"""The overview of a file of annotated texts for `albert data check`."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from albert.core.errors import FlagError
from albert.data.annotated_files import AnnotatedFile, ReadOptions
from albert.data.annotations import AnnotatedText, spans_inside_words
from albert.data.bad_rows import ERROR, BadRows
from albert.data.overview import SHOWN, Line, Overview
from albert.report.spans import texts_of_spans
from albert.tasks.entities.settings import ON_BAD_ROW

# It imports TensorFlow.
if TYPE_CHECKING:
    from albert.tokenization import FullTokenizer


def overview_of(
    path: str,
    num_examples: int = 5,
    options: ReadOptions | None = None,
    on_bad_row: str = ERROR,
    tokenizer: FullTokenizer | None = None,
    max_seq_length: int = 128,
) -> Overview:
    """Returns the overview of a file as `albert entities` reads it; raises as `AnnotatedFile`.

    With a tokenizer, the overview also has how its tokens fit into a model with this length.
    """
    if on_bad_row not in ON_BAD_ROW:
        raise FlagError(f"--on_bad_row={on_bad_row} is for questions only")
    file, bad = AnnotatedFile(path, options=options), BadRows(path, on_bad_row, ON_BAD_ROW)
    texts = file.read((), bad)
    spans = [span for text in texts for span in text.spans]
    counts = [("texts", len(texts)), ("entities", len(spans))]
    labels = collections.Counter(span.label or "" for span in spans)
    counts += [(f"label {label}", number) for label, number in labels.most_common()]
    repeated = len(texts) - len({text.text for text in texts})
    problems = {
        "without text": sum(not text.text.strip() for text in texts),
        "repeated texts": repeated,
        "inside words": len(spans_inside_words(texts)),
    }
    counts += [(what, number) for what, number in problems.items() if number]
    rows = [(name, f"{number:,}") for name, number in counts]
    unusual = {what: len(where) for what, where in file.unusual.items() if where}
    rows += [("unusual", f"{number:,} entities {what}") for what, number in unusual.items()]
    ignored = {what: number for what, number in file.ignored.items() if number}
    rows += [("ignored", f"{number:,} {what}") for what, number in ignored.items()]
    if tokenizer:
        rows += _tokens(texts, tokenizer, max_seq_length)
    shown = itertools.islice((text for text in texts if text.spans), num_examples)
    return Overview(file.form, rows, list(map(_example, shown)), bad)


def _tokens(
    texts: Sequence[AnnotatedText], tokenizer: FullTokenizer, max_seq_length: int
) -> list[tuple[str, str]]:
    ids = list(tokenizer.encode(text.text for text in texts))
    long = sum(len(one) > max_seq_length - 2 for one in ids)
    unknown = sum(list(one).count(tokenizer.unk_id) for one in ids)
    total = sum(map(len, ids))
    return [
        ("long texts", f"{long:,} above {max_seq_length} tokens; they become several windows"),
        ("unknown tokens", f"{unknown / (total or 1):.1%} of {total:,}"),
    ]


def _example(text: AnnotatedText) -> tuple[str, list[Line]]:
    """Returns the title of a text, and the part with its first entities, which are marked."""
    begin = max(0, text.spans[0].start - SHOWN)
    part = text.text[begin : begin + 2 * SHOWN]
    shown = [span for span in text.spans if span.end <= begin + len(part)]
    marks = [(span.start - begin, span.end - begin, "answer") for span in shown]
    entities = texts_of_spans({"text": span.text, "label": span.label} for span in shown)
    return text.location.name, [Line("text", part, marks), Line("entities", entities)]
