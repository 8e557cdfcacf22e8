"""The overview of a file of annotated texts for `albert data check`."""

from __future__ import annotations

import collections
from collections.abc import Iterator

from albert.report.spans import texts_of_spans
from albert.tables.bad_rows import BadRows
from albert.tables.overview import SHOWN, Line, Overview
from albert.tasks.entities.annotation_exports import open_annotated
from albert.tasks.entities.annotations import AnnotatedText
from albert.tasks.entities.settings import FormatSettings


def fill(overview: Overview, settings: FormatSettings) -> None:
    """Fills an overview of a file as `albert entities` reads it; raises as its `read` does."""
    file = open_annotated(overview.path, settings=settings)
    overview.bad = BadRows(overview.path, overview.on_bad_row)
    texts = file.read((), overview.bad)
    overview.format = file.form
    labels = collections.Counter(span.label for text in texts for span in text.spans)
    overview.add("texts", len(texts))
    overview.add("entities", labels.total())
    for label, number in labels.most_common():
        overview.add(f"label {label}", number)
    if empty := sum(not text.text.strip() for text in texts):
        overview.add("without text", empty)
    if repeated := len(texts) - len({text.text for text in texts}):
        overview.add("repeated texts", repeated)
    for text in texts:
        if text.spans:
            overview.add_example(text.location.name, _lines_of(text))


def _lines_of(text: AnnotatedText) -> Iterator[Line]:
    """Yields the part of a text with its first entities, which are marked, and the entities."""
    begin = max(0, text.spans[0].start - SHOWN)
    part = text.text[begin : begin + 2 * SHOWN]
    shown = [span for span in text.spans if span.end <= begin + len(part)]
    marks = [(span.start - begin, span.end - begin, "answer") for span in shown]
    yield Line("text", part, marks)
    entities = ({"text": span.text, "label": span.label} for span in shown)
    yield Line("entities", texts_of_spans(entities))
