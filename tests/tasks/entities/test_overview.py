"""The overview of annotated texts: counts, problems, and examples marked in their texts."""

import json

import pytest

from albert.core.errors import UserError
from albert.tables.bad_rows import ERROR
from albert.tables.overview import Line, Overview
from albert.tasks.entities.overview import fill
from albert.tasks.entities.settings import FormatSettings


def span(start: int, end: int, label: str) -> dict:
    return {"start": start, "end": end, "label": label}


RECORDS = [
    {"text": "Nia Moor saw Ouse.", "spans": [span(0, 9, "PER"), span(13, 16, "LOC")]},
    {"text": " ", "spans": []},
    {"text": "x" * 500 + " Nia", "spans": [span(501, 504, "PER")]},
    {"text": "Nia Moor saw Ouse.", "spans": [span(0, 8, "PER")]},
    {"text": "Nia", "spans": [span(0, 2, "PER"), span(1, 3, "PER")]},
    {"text": "Nia", "spans": [], "answer": "reject"},
]


def test_an_overview_has_counts_problems_and_examples(write):
    path = write("".join(json.dumps(record) + "\n" for record in RECORDS))
    overview = Overview(path, 2, ERROR)
    fill(overview, FormatSettings())
    assert overview.format == "annotated texts with spans"
    assert overview.counts == [
        ("texts", "4"),
        ("entities", "4"),
        ("label PER", "3"),
        ("label LOC", "1"),
        ("without text", "1"),
        ("repeated texts", "1"),
    ]
    assert overview.bad.notes == {
        "spans that begin or end with white space, which is removed": 1,
        "ignored texts with the answer reject": 1,
        "spans that begin or end inside a word": 1,
    }
    marks = [(0, 8, "answer"), (13, 16, "answer")]
    lines = [
        Line("text", "Nia Moor saw Ouse.", marks),
        Line("entities", "Nia Moor (PER) | Ous (LOC)"),
    ]
    first, (_, (line, _)) = overview.examples
    assert first == ("line 1", lines)
    # Of a long text, the part with its entity is shown.
    ((start, end, _),) = line.marks
    assert line.text[start:end] == "Nia" and len(line.text) < 300
    with pytest.raises(UserError, match="1 row: ... and ... overlap: line 5 .*--on_bad_row=skip$"):
        overview.bad.finish()
