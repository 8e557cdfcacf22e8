"""Files of annotated texts, and tags of words: formats, faults, and seqeval's rules."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert.core.errors import UserError
from albert.report.spans import Span
from albert.tables.bad_rows import ERROR, BadRows
from albert.tables.tables import SourceLine
from albert.tasks.entities.annotation_exports import open_annotated
from albert.tasks.entities.annotations import (
    AnnotatedText,
    as_bioes,
    spans_of_tags,
    write_annotated,
)
from tests.helpers.entities import as_columns, as_spans, sentences, spans_in

LINE = SourceLine("file", 1)


def read_annotated(path: str, labels=()) -> list[AnnotatedText]:
    bad = BadRows(path, ERROR)
    texts = open_annotated(path).read(labels, bad)
    bad.finish()
    return texts


def words_of(count: int) -> list[tuple[int, int]]:
    return [(2 * number, 2 * number + 1) for number in range(count)]


def spans(*values: object, text: object = "a") -> str:
    return json.dumps({"text": text, "spans": values}) + "\n"


def span(start: object = 0, end: object = 1, label: object = "A") -> dict:
    return {"start": start, "end": end, "label": label}


# From `seqeval.metrics.sequence_labeling.get_entities` of seqeval 1.2.2: first and last words.
ENTITIES_OF_SEQEVAL = {
    "": [],
    "O O": [],
    "B-PER I-PER O B-LOC": [("PER", 0, 1), ("LOC", 3, 3)],
    "B-PER B-PER I-PER": [("PER", 0, 0), ("PER", 1, 2)],
    "I-PER I-PER B-PER": [("PER", 0, 1), ("PER", 2, 2)],
    "I-PER I-LOC": [("PER", 0, 0), ("LOC", 1, 1)],
    "B-PER I-LOC I-LOC": [("PER", 0, 0), ("LOC", 1, 2)],
    "B-PER I-PER E-PER S-LOC": [("PER", 0, 2), ("LOC", 3, 3)],
    "E-PER E-PER I-PER": [("PER", 0, 0), ("PER", 1, 1), ("PER", 2, 2)],
    "S-PER I-PER O E-PER": [("PER", 0, 0), ("PER", 1, 1), ("PER", 3, 3)],
    "B-X-Y I-X-Y I-X": [("X-Y", 0, 1), ("X", 2, 2)],
    "B I O I B": [("_", 0, 1), ("_", 3, 3), ("_", 4, 4)],
    "B-X I I-X": [("X", 0, 0), ("_", 1, 1), ("X", 2, 2)],
}


@pytest.mark.parametrize("tags", ENTITIES_OF_SEQEVAL)
def test_tags_are_read_as_seqeval_reads_them(tags):
    entities = [(span.label, span.start // 2, (span.end - 1) // 2) for span in spans_in(tags)]
    assert entities == ENTITIES_OF_SEQEVAL[tags]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-PER O I-PER", "B-PER O I-PER"),
        ("o b-per i-per", "O B-per I-per"),
        ("O B_PER I_PER", "O B-PER I-PER"),
        ("PER-B PER-I O", "B-PER I-PER O"),
        ("B-NP I-NP", "B-NP I-NP"),
        ("I-PER O", "I-PER O"),
        ("O B-X I-X L-X U-X", "O B-X I-X E-X S-X"),
        ("B-X M-X E-X S-X O", "B-X I-X E-X S-X O"),
        ("PER O LOC", "I-PER O I-LOC"),
        ("O E-MAIL PHONE", "O I-E-MAIL I-PHONE"),
        ("O", "O"),
        # Parts of speech, numbers, no name, tags of two kinds.
        *((tags, None) for tags in ("NOUN VERB ADJ", "LABEL_0 LABEL_1", "O 1 2")),
        *((tags, None) for tags in ("O B I", "O B-PER I-PER X", "O B-PER LOC")),
    ],
)
def test_tags_of_other_models_are_recognized_or_refused(tags, expected):
    if expected is not None:
        assert as_bioes(tags.split()) == expected.split()
        return
    with pytest.raises(UserError, match=f"mark no entities: {tags.replace(' ', ', ')}; they must"):
        as_bioes(tags.split())


@st.composite
def annotated(draw) -> AnnotatedText:
    """Draws a text of one-letter words, and spans of whole words that do not overlap."""
    count = draw(st.integers(0, 12))
    cuts = sorted(draw(st.sets(st.integers(0, count), max_size=8)))
    text, spans = " ".join("a" * count), list[Span]()
    for first, last in zip(cuts, cuts[1:], strict=False):
        if draw(st.booleans()):
            label, start, end = draw(st.sampled_from(["PER", "X-Y"])), 2 * first, 2 * last - 1
            spans.append(Span(start, end, text[start:end], label))
    return AnnotatedText(LINE, text, words_of(count), spans)


@given(annotated())
def test_spans_come_back_from_their_tags(text):
    tags = text.tags()
    assert [span for _, span in spans_of_tags(text.text, text.words, tags)] == text.spans
    assert {tag[0] for tag in tags} <= {*"BIO"}


def test_a_span_has_the_lowest_probability_of_its_tags():
    tags, shares = ["B-PER", "I-PER", "B-PER"], [0.9, 0.4, 0.8]
    spans = [span for _, span in spans_of_tags("a a a", words_of(3), tags, shares)]
    assert [(span.text, span.probability) for span in spans] == [("a a", 0.4), ("a", 0.8)]


@pytest.mark.parametrize("separator", [" ", "\t", "  "])
def test_columns_and_spans_of_the_same_texts_are_equal(write, separator, log):
    """With more columns, other line ends and a byte order mark. The last column has the tag."""
    made = sentences(seed=1, count=20)
    columns = as_columns([[(token, f"NN{separator}{tag}") for token, tag in rows] for rows in made])
    columns = columns.replace(" ", separator).replace("\n", "\r\n")
    columns = f"\ufeff-DOCSTART- -X- O\r\n\r\n\r\n{columns}"
    from_columns = read_annotated(write(columns))
    lines = "".join(json.dumps(as_spans(rows)) + "\n" for rows in made)
    from_lines = read_annotated(write(lines))
    assert [text[1:4] for text in from_columns] == [text[1:4] for text in from_lines]
    assert [text.location.line for text in from_columns][:2] == [4, 4 + len(made[0]) + 1]
    assert [text.location.line for text in from_lines] == list(range(1, 21))
    assert log() == []


def test_a_written_file_is_read_back(tmp_path, write):
    made = [as_spans(rows) for rows in sentences(seed=1, count=5)]
    texts = read_annotated(write("".join(json.dumps(row) + "\n" for row in made)))
    predicted = [[span._replace(probability=0.5) for span in text.spans] for text in texts]
    write_annotated(str(tmp_path / "written"), texts, predicted)
    again = read_annotated(str(tmp_path / "written"))
    assert [text[1:] for text in again] == [text[1:] for text in texts]


def test_unusual_spans_are_counted_and_only_tabs_and_spaces_separate_columns(write, log):
    read_annotated(write("a O\nb I-PER\nc I-PER\n\nd I-LOC\n"))
    assert log() == [f"{write('')}: entities that begin without B- or S-, as in IOB1: 2"]
    (text,) = read_annotated(write(spans(span(0, 3), span(5, 6), text="abc defg")))
    assert text.cut(text.words) == 1
    assert text.tags() == ["B-A", "B-A"] and text.spans[1].text == "e"
    (text,) = read_annotated(write("a\u3000b  B-X \nc O\n"))
    assert text.text == "a\u3000b c" and text.spans[0].text == "a\u3000b"


@pytest.mark.parametrize(
    ("content", "line", "reason", "detail"),
    [
        ("a\tO\n\tO\n", 2, "2 columns are needed", "' O'"),
        ("a B-\n", 1, "must be O, B-NAME", "'B-'"),
        ("a B-\033[31m\n", 1, "must be O, B-NAME", ""),
        ("a B-PER\nb I-LOC\n", 2, "the label ... is not one of A, PER", "'LOC'"),
        ("a O\n" + "b" * 1_000_000 + "\n", 2, "2 columns are needed", "'bb"),
        ("a O\n" + "b " * 500_000 + "O\n", 2, "2 columns are needed", "'b b"),
        (spans(text=1), 1, '"text" must be a text', ""),
        (spans(span(label="B")), 1, "the label ... is not one of A, PER", "'B'"),
        (spans(span(end=2)), 1, "is not in the text of ... characters", "{'start': 0, 'end': 2"),
        (spans(span(start=-1)), 1, "is not in the text", "{"),
        (spans(span(start=False)), 1, "is not in the text", "{"),
        (spans(span(end=1.0)), 1, "is not in the text", "{"),
        (spans(7), 1, "the span ... is not in the text", "7, 1"),
        (spans(span(label=None)), 1, "has no label", "{"),
        (spans(span(label="\n")), 1, "has no label", "{"),
        (spans(span(1, 3), text="a  b"), 1, "has only white space", "{"),
        (spans(span(), span()), 1, "... and ... overlap", "'a', 'a'"),
        (spans(span(1, 3), span(0, 2), text="abc"), 1, "... and ... overlap", "'ab', 'bc'"),
        (spans(text="a" * 1_000_000).replace("[]", "1"), 1, '"spans" a list', ""),
        (spans(span(0, 2_000_000), text="a" * 1_000_000), 1, "is not in the text", "{"),
    ],
)
def test_a_fault_names_the_line(write, content, line, reason, detail):
    path = write(content)
    parts = map(re.escape, (path, reason, f": line {line}", f" ({detail}" if detail else ""))
    with pytest.raises(UserError, match="^{}: 1 row: .*{}.*{}{}".format(*parts)) as caught:
        read_annotated(path, ["A", "PER"])
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)
