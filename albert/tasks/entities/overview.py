"""The overview of a file of annotated texts for `albert data check`."""

from __future__ import annotations

import collections
import itertools
from typing import TYPE_CHECKING

from albert.report.spans import texts_of_spans
from albert.tables.bad_rows import ERROR, BadRows
from albert.tables.overview import SHOWN, Line, Overview, TokenCounts
from albert.tasks.entities.annotated_files import AnnotatedFile, ReadOptions
from albert.tasks.entities.annotations import AnnotatedText

# It imports TensorFlow.
if TYPE_CHECKING:
    from albert.tokenization import FullTokenizer


def overview_of(
    path: str,
    num_examples: int = 5,
    on_bad_row: str = ERROR,
    tokenizer: FullTokenizer | None = None,
    max_seq_length: int = 128,
    options: ReadOptions | None = None,
) -> Overview:
    """Returns the overview of a file as `albert entities` reads it; raises as `AnnotatedFile`.

    With a tokenizer, the overview also has how its tokens fit into a model with this length.
    """
    bad, file = BadRows(path, on_bad_row), AnnotatedFile(path, options=options)
    texts = file.read((), bad)
    labels = collections.Counter(span.label for text in texts for span in text.spans)
    rows = [("texts", f"{len(texts):,}"), ("entities", f"{labels.total():,}")]
    rows += [(f"label {label}", f"{number:,}") for label, number in labels.most_common()]
    problems = [
        ("without text", sum(not text.text.strip() for text in texts), ""),
        ("repeated texts", len(texts) - len({text.text for text in texts}), ""),
        ("inside words", len(file.inside), ""),
        *(("unusual", len(where), f" entities {what}") for what, where in file.unusual.items()),
        *(("ignored", number, f" {what}") for what, number in file.ignored.items()),
    ]
    rows += [(name, f"{number:,}{what}") for name, number, what in problems if number]
    if tokenizer:
        tokens, long = TokenCounts(tokenizer.unk_id), 0
        for ids in tokenizer.encode(text.text for text in texts):
            tokens.add(ids)
            long += len(ids) > max_seq_length - 2
        several = f"{long:,} above {max_seq_length} tokens; they become several windows"
        rows += [tokens.row(), ("long texts", several)]
    shown = itertools.islice((text for text in texts if text.spans), num_examples)
    return Overview(file.form, rows, list(map(_example, shown)), bad)


def _example(text: AnnotatedText) -> tuple[str, list[Line]]:
    """Returns the title of a text, and the part with its first entities, which are marked."""
    begin = max(0, text.spans[0].start - SHOWN)
    part = text.text[begin : begin + 2 * SHOWN]
    shown = [span for span in text.spans if span.end <= begin + len(part)]
    marks = [(span.start - begin, span.end - begin, "answer") for span in shown]
    entities = texts_of_spans({"text": span.text, "label": span.label} for span in shown)
    return text.location.name, [Line("text", part, marks), Line("entities", entities)]
