"""Annotated texts as other tools write them: all forms are read rightly, or refused in one line."""

import json
import re

import pytest

from albert.core.errors import UserError
from albert.tables.bad_rows import ERROR, SKIP, BadRows
from albert.tasks.entities.annotation_exports import open_annotated
from albert.tasks.entities.settings import FormatSettings

TEXT = "Nia Moor saw Ouse."
ENTITIES = [(0, 8, "PER"), (13, 17, "LOC")]
TRIPLES = [list(entity) for entity in ENTITIES]
SPACY = [TEXT, {"entities": TRIPLES}]


def objects(start="start", end="end", label="label", **more) -> list[dict]:
    return [{start: s, end: e, label: name, **more} for s, e, name in ENTITIES]


def with_texts(values: list[dict], text: str = TEXT) -> list[dict]:
    return [{**value, "text": text[value["start"] : value["end"]]} for value in values]


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def of_label_studio(*results: list, **more) -> dict:
    annotations = [{"id": n, "result": result} for n, result in enumerate(results)]
    return {"id": 7, "annotations": annotations, "data": {"ner": TEXT, "id": 3}, **more}


STUDIO = [{"start": s, "end": e, "text": TEXT[s:e], "labels": [name]} for s, e, name in ENTITIES]
RESULTS = [{"type": "labels", "value": value} for value in STUDIO]
CHOICE = {"type": "choices", "value": {"choices": ["good"]}}
JSON_FORMS = {
    "spans": lines({"text": TEXT, "spans": objects()}),
    "spans and their texts": lines({"text": TEXT, "spans": with_texts(objects())}),
    "one pretty object": json.dumps({"text": TEXT, "spans": objects()}, indent=2),
    "Prodigy": lines({"text": TEXT, "spans": objects(token_start=0), "answer": "accept"}),
    "doccano": lines({"id": 1, "text": TEXT, "label": TRIPLES, "Comments": []}),
    "doccano, labels": lines({"id": 1, "text": TEXT, "labels": TRIPLES}),
    "doccano, entities": lines(
        {"text": TEXT, "entities": objects("start_offset", "end_offset", id=1), "relations": [{}]}
    ),
    "spaCy": json.dumps([SPACY]),
    "spaCy, pretty": json.dumps([SPACY], indent=1),
    "spaCy, lines": lines(SPACY),
    "triples": "\n \n" + lines({"text": TEXT, "entities": TRIPLES}) + "\n",
    "Label Studio": json.dumps([of_label_studio([*RESULTS, CHOICE])]),
    "Label Studio, pretty": json.dumps([of_label_studio(RESULTS, RESULTS)], indent=2),
    "JSON_MIN": json.dumps([{"text": TEXT, "id": 1, "label": STUDIO, "annotation_id": 1}]),
}
LAST = [{"text": TEXT[s:e], "start": s, "end": e - 1} for s, e, _ in ENTITIES]
# Exports of tools in JSON that a line or a document has as a whole.
POINTS = [{"label": [name], "points": [p]} for p, (*_, name) in zip(LAST, ENTITIES, strict=True)]
OF_FIELD = [{**result, "to_name": "b"} for result in RESULTS]
NOT_USED = {"was_cancelled": True, "result": RESULTS}
EXPORTS = {
    "NER Annotator": json.dumps({"classes": [], "annotations": [None, SPACY]}),
    "Dataturks": lines({"content": TEXT, "annotation": POINTS, "extras": None}),
    "Label Studio, the field of the results": json.dumps(
        [
            {"data": {"b": TEXT, "text": "Other."}, "annotations": [{"result": OF_FIELD}]},
            {"data": {"text": TEXT}, "annotations": [NOT_USED]},
            {"data": {"text": TEXT}, "annotations": []},
        ]
    ),
}
TOKENS = "Nia Moor saw Ouse .", [(0, 8, "PER"), (13, 17, "LOC")]
BIO = [("Nia", "B-PER"), ("Moor", "I-PER"), ("saw", "O"), ("Ouse", "B-LOC"), (".", "O")]


def columns(rows: list = BIO, separator: str = " ") -> str:
    return "".join(separator.join(row) + "\n" for row in rows)


def retagged(*tags: str) -> list:
    return [(token, tag) for (token, _), tag in zip(BIO, tags, strict=True)]


NUMBERED = [(str(number), *row) for number, row in enumerate(BIO, start=1)]
COLUMN_FORMS = {
    "BILOU": columns(retagged("B-PER", "L-PER", "O", "U-LOC", "O")),
    "BMES": columns(retagged("B-PER", "E-PER", "O", "S-LOC", "O")),
    "comments": "# id 1\n# a b c d\n" + columns() + "\n#\n\n",
    "comments with tabs": "#\tmade-up\t\t\n" + columns(),
    "numbers": columns(NUMBERED, "\t"),
    "numbers from 0": columns([(str(int(n) - 1), *row) for n, *row in NUMBERED]),
    "CoNLL-U": "# text = x\n1-2\tNi\t_\tO\n"
    + columns([(n, token, "_", tag) for n, token, tag in NUMBERED], "\t"),
    "GermEval": "#\tmade-up\t[2020]\t\n" + columns([(*row, "O") for row in NUMBERED], "\t"),
    "CoNLL-2003": "-DOCSTART- -X- O O\n\n"
    + columns([(token, "NN", "B-NP", tag) for token, tag in BIO]),
    "chunks": columns([(token, "B-NP", tag) for token, tag in BIO]),
}
WORDS, TAGS = zip(*BIO, strict=True)
NAMES = ["O", "B-LOC", "B-PER", "I-PER"]
HUB = {
    "features": [{"name": "ner_tags", "type": {"feature": {"names": NAMES}}}],
    "rows": [{"row_idx": 0, "row": {"tokens": WORDS, "ner_tags": list(map(NAMES.index, TAGS))}}],
}


def in_rows(header: str, number: str, more: str = "") -> str:
    """Returns a table with a token in each row, and the number of the sentence in the first one."""
    cells = [f"{number * (n == 0)},{more}{token},{tag}" for n, (token, tag) in enumerate(BIO)]
    return "\n".join([header, *cells]) + "\n"


def webanno(*cells: str, header: str = "x.NamedEntity|identifier|value") -> str:
    """Returns a sentence of WebAnno, where an emoji has two offsets; all tokens have a space."""
    rows, at = [f"#FORMAT=WebAnno TSV 3.3\n#T_SP={header}\n\n\n#Text=x\n"], 7
    for number, (word, cell) in enumerate(zip(WORDS, cells, strict=True), start=1):
        end = at + len(word.encode("utf-16-le")) // 2
        rows.append(f"1-{number}\t{at}-{end}\t{word}\t{cell}\t\n")
        at = end + 1
    return "".join(rows)


TOKEN_FORMS = {
    "JSON Lines of the Hub": lines({"id": "0", "tokens": WORDS, "ner_tags": TAGS}),
    "words and labels": json.dumps([{"words": WORDS, "labels": TAGS, "text": TEXT}]),
    "numbers with names": json.dumps(HUB, indent=1),
    "Kaggle": in_rows("Sentence #,POS,Word,Tag", "Sentence: 1", "X,"),
    "SimpleTransformers": in_rows("sentence_id,words,labels", "0"),
    "lists in cells": f'tokens,tags\n"{[*WORDS]}","{[*TAGS]}"\n',
    "WebAnno": webanno("*[1]\tPER[1]", "*[1]\tPER[1]", "_\t_", "*\tLOC", "_\t_"),
    "WebAnno, own layer": webanno("PER[7]", "PER[7]", "_", "LOC", "_", header="x.Foo|kind"),
    "CoNLL-U with tags among members": columns(
        [(n, token, *"______0_"[:7], f"SpaceAfter=No|Tag={tag}") for n, token, tag in NUMBERED],
        "\t",
    ),
}


def read(path: str, action: str = ERROR, is_labeled: bool = True, **options) -> list:
    """Returns texts with their spans as triples."""
    bad = BadRows(path, action)
    settings = FormatSettings(given=frozenset(options), **options)
    texts = open_annotated(path, is_labeled, settings).read((), bad)
    bad.finish()
    assert all(s.text == text.text[s.start : s.end] for text in texts for s in text.spans)
    return [(t.text, [(s.start, s.end, s.label) for s in t.spans]) for t in texts]


@pytest.mark.parametrize("form", JSON_FORMS)
def test_json_of_annotation_tools_is_read(write, form):
    path = write(JSON_FORMS[form])
    assert read(path) == [(TEXT, ENTITIES)]
    assert read(path, is_labeled=False) == [(TEXT, [])]


@pytest.mark.parametrize("form", EXPORTS)
def test_exports_are_read_without_what_has_no_annotation(write, form, log):
    path = write(EXPORTS[form])
    assert read(path) == [(TEXT, ENTITIES)]
    ignored = [line.partition("ignored ")[2] for line in log()]
    is_studio = form.startswith("Label Studio")
    whose = [f"tasks whose annotations {what}: 1" for what in ("do not exist", "were canceled")]
    assert sorted(ignored) == whose * is_studio


@pytest.mark.parametrize("form", TOKEN_FORMS)
def test_tokens_with_tags_of_other_programs_are_read(write, form):
    path = write(TOKEN_FORMS[form])
    assert read(path) == [TOKENS]
    assert read(path, is_labeled=False) == [(TOKENS[0], [])]


def test_a_document_of_brat_has_its_text_beside_it(tmp_path):
    text = "Nia\r\nMoor saw \U0001f600 Ouse."
    entities = "T1\tPER 0 3;5 9\tNia Moor\nT2\tLOC 16 20\tOuse\nR1\tsaw Arg1:T1 Arg2:T2\n"
    for name in "ab":
        (tmp_path / f"{name}.txt").write_bytes(text.encode())
        (tmp_path / f"{name}.ann").write_text(entities)
    document = (text, [(0, 9, "PER"), (16, 20, "LOC")])
    assert read(str(tmp_path / "a.ann")) == [document]
    assert read(str(tmp_path)) == [document] * 2
    (tmp_path / "b.ann").write_text("T1\tPER 0 3;10 13\tNia saw\n")
    with pytest.raises(UserError, match=r"1 row: the entity ... has gaps.*: b.ann, line 1 \("):
        read(str(tmp_path))


@pytest.mark.parametrize("has_texts", [False, True])
def test_ends_that_are_last_characters_are_never_taken_for_others(write, has_texts):
    spans = [{**span, "label": "X"} for span in LAST]
    keys = ("start", "end", "label", *(["text"] if has_texts else []))
    spans = [{key: span[key] for key in keys} for span in spans]
    path = write(lines({"text": TEXT, "spans": spans}))
    with pytest.raises(UserError, match=f"^{path}: .*--offsets=inclusive"):
        read(path)
    expected = [(start, end, "X") for start, end, _ in ENTITIES]
    assert read(path, offsets="inclusive") == [(TEXT, expected)]
    if not has_texts:
        shorter = [(start, end - 1, "X") for start, end, _ in ENTITIES]
        assert read(path, offsets="characters") == [(TEXT, shorter)]
        # Particles of one character may follow entities.
        span = {"start": 0, "end": 2, "label": "X"}
        path = write(lines({"text": "서울에 갔다", "spans": [span]}))
        assert read(path) == [("서울에 갔다", [(0, 2, "X")])]


@pytest.mark.parametrize("form", COLUMN_FORMS)
def test_columns_of_all_conventions_are_read(write, form):
    assert read(write(COLUMN_FORMS[form])) == [TOKENS]


def test_columns_that_look_like_others_stay_as_they_are(write, log):
    for content, expected in {
        "1 O\n2 O\n3 B-X\n": [("1 2 3", [(4, 5, "X")])],
        "# O\n#tag B-X\n\n#a O\n": [("# #tag", [(2, 6, "X")]), ("#a", [])],
        "[ O\n{ B-X\n": [("[ {", [(2, 3, "X")])],
        "[ ] O\n{ } B-X\n": [("[ {", [(2, 3, "X")])],
        '{ O\n" B-X\n': [('{ "', [(2, 3, "X")])],
        "1 NN O\na NN O\nb NN B-X\n": [("1 a b", [(4, 5, "X")])],
        "\u3000 O\na\u00a0b B-X\n": [("\u3000 a\u00a0b", [(2, 5, "X")])],
        "a\u3000b\tO\n\u3000\tB-X\nc\tI-X\n": [("a\u3000b \u3000 c", [(6, 7, "X")])],
    }.items():
        assert read(write(content)) == expected
    assert not any("olumn" in line.partition(": ")[2] for line in log())


def test_the_columns_of_tokens_and_tags_can_be_given(write):
    path = write(columns([(tag, "x", token) for token, tag in BIO]))
    assert read(path, token_column=3, tag_column=1) == [TOKENS]
    with pytest.raises(UserError, match="line 1: there are only 3 columns$"):
        read(path, token_column=4)


def test_unusual_columns_are_named_in_the_log(write, log):
    path = write(COLUMN_FORMS["GermEval"])
    read(path)
    assert log() == [
        f"{path}: the tokens are in column 2 of 4",
        f"{path}: the tags are in column 3 of 4",
    ]
    path = write("Only plain text\n")
    assert read(path, is_labeled=False, tag_column=9) == [("Only", [])]
    assert log() == [f"{path}: the tokens are in column 1 of 3"]
    for content in ("a\nb\n\nc\n", '{"text": "a b"}\n{"text": "c"}\n'):
        assert read(write(content), is_labeled=False) == [("a b", []), ("c", [])]


def test_white_space_at_the_edges_of_a_span_is_no_part_of_it(write, log):
    spans = [{"start": 0, "end": 9, "label": "PER"}, {"start": 12, "end": 18, "label": "LOC"}]
    path = write(lines({"text": "Nia Moor saw Ouse \n", "spans": spans}))
    assert read(path) == [("Nia Moor saw Ouse \n", ENTITIES)]
    assert log() == [f"{path}: spans that begin or end with white space, which is removed: 2"]


@pytest.mark.parametrize(
    ("unit", "text"),
    [("utf16", "\U0001f600 Nia"), ("bytes", "äöü Nia"), ("lines", "a\r\nb\r\n Nia")],
)
def test_other_offsets_are_recognized_by_the_texts_of_spans(write, unit, text):
    size = {"utf16": len(text.encode("utf-16-le")) // 2, "bytes": len(text.encode())}
    end = size.get(unit, len(text.replace("\r", "")))
    spans = [{"start": end - 3, "end": end, "label": "A", "text": "Nia"}]
    path = write(lines({"text": text, "spans": spans}, {"text": "a b", "spans": []}))
    expected = [(text, [(len(text) - 3, len(text), "A")]), ("a b", [])]
    assert read(path, offsets=unit) == expected
    other = "bytes" if unit == "utf16" else "utf16"
    for offsets in ("characters", other):
        hint = f"1 row: the .*; the spans agree with --offsets={unit}: line 1"
        with pytest.raises(UserError, match=hint):
            read(path, offsets=offsets)
    assert read(path, SKIP) == expected[1:]


def test_what_is_not_read_is_counted(write, log):
    records = [
        {"text": "a", "spans": [], "answer": "reject"},
        {"text": "b", "entities": [[0, 1, "X"]], "relations": [{}, {}], "answer": "accept"},
        {"text": "c", "spans": None, "answer": "accept"},
    ]
    read(write(lines({**records[1], "relations": []})))
    assert log() == []
    path = write(lines(*records))
    assert read(path) == [("b", [(0, 1, "X")]), ("c", [])]
    assert sorted(log()) == [
        f"{path}: ignored relations: 2",
        f"{path}: ignored texts with the answer reject: 1",
    ]


def moved(text: str) -> str:
    return lines({"text": TEXT, "spans": [{"start": 4, "end": 8, "label": "PER", "text": text}]})


LINKS = [{"type": "hypertextlabels", "value": {"hypertextlabels": ["X"]}}]
TWO_TEXTS = {"data": {"a": "x", "b": "y"}, "annotations": [{"result": RESULTS}]}
OF_SPACY_2 = {"paragraphs": [{"raw": "x", "sentences": [{"tokens": [{"ner": "O"}]}]}]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        # The text is elsewhere: it is not searched.
        (moved("Nia Moor"), "1 row: the text of the span ... is not ...: line 1 "),
        (moved("Nia"), "the text of .*: line 1 .*, 'Moor'\\)"),
        (lines({"text": TEXT, "label": ["good"]}), " looks like a table of labels: use `albert cl"),
        (lines({"sentence": TEXT, "label": 1}), " looks like a table of labels: use `albert cl"),
        (lines({"context": TEXT, "question": "Who?"}), " looks like questions: use `albert s"),
        (json.dumps({"data": [{"paragraphs": []}]}, indent=1), " looks like questions: use "),
        (lines({"header": {"dataset": "x"}}), " looks like questions: use `albert s"),
        (lines({"text": TEXT}), '"spans" a list; found text: line 1;'),
        (lines({"text": TEXT, "label": TRIPLES, "entities": TRIPLES}), "found text, label, entit"),
        (lines({"id": 1}), '"text" must be a text, and "spans" a list; found id: line 1;'),
        (json.dumps([of_label_studio(RESULTS, RESULTS[:1])]), "the ... annotations of the"),
        (json.dumps([of_label_studio()]), " has no texts; ignored tasks whose annotations do"),
        (json.dumps([of_label_studio([CHOICE])]), " looks like choices of Label Studio: use `al"),
        (json.dumps([of_label_studio(LINKS)]), "... are no spans of .* \\('hypertextlabels'\\)"),
        (json.dumps([TWO_TEXTS]), "spans may be those of several texts, .*: text 1 \\('a, b'\\)"),
        (json.dumps([OF_SPACY_2]), " looks like training data of spaCy 2; convert it with `spac"),
        (b"x\x9c\x01", " looks like a DocBin of spaCy; for each doc of "),
        (lines({"text": TEXT, "spans": []}), " has no entities$"),
        ("Nia O\n", " has no entities$"),
        ("Nia B-PER\rsaw O\r", ", line 1: a carriage return inside of a line; end lines with LF"),
        (lines(*[{"tokens": WORDS, "ner_tags": [0] * 5}] * 2), "line 1: the tag 0 is a number"),
        (lines({"tokens": WORDS, "ner_tags": TAGS[1:]}), "the tag must be .*: line 1 \\(None\\)"),
        (lines({"tokens": WORDS, "ner_tags": ["PER"] * 5}), "the tag must be O, B-NAME or sim"),
        ("word,tag\nNia,B-PER\n", "line 2: no column numbers the sentences"),
        (webanno("A[1]|B[2]", *"____", header="x.Foo|kind"), r"the tag must be .* \('A\[1\]\|B"),
        (webanno("A\tB", *["_\t_"] * 4, header="x.Foo|a|b"), r"--tag_column: 4 \(Foo.a\), 5 \("),
        ("[[1], 2]\n", "not a JSON object: text 1, text 2;"),
        *(("[]", " has no texts$"), ("-DOCSTART- O\n\n", " has no texts$")),
        *((content, " looks like an empty file$") for content in ("", "\n\n")),
        ('[{"text": "a"', " is not JSON: "),
        ('{"text": "a", "spans": []}\n{"text"\n', "line 2 is not JSON: "),
        (b"a O\nb\xff O\n", ", line 2: byte 2 of the line is not UTF-8; save the file as UTF-8"),
        ("label\ttext\ngood\tNia\n", " looks like a table of labels: use `albert cl"),
        ("<!DOCTYPE html>\n<p>a\n", " looks like XML or HTML$"),
        ("The river Ouse\n", "the last column must be O, B-NAME .* not ...: line 1 \\('Ouse'\\)"),
    ],
)
def test_other_files_are_refused_in_one_line(write, content, message):
    path = write(content)
    with pytest.raises(UserError, match=f"^{re.escape(path)}.*{message}") as caught:
        read(path)
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


def test_bad_texts_are_counted_and_the_others_are_read(write):
    path = write(columns() + "\na\n\nb PER\n\nc PER\n")
    assert read(path, SKIP) == [TOKENS]
    with pytest.raises(UserError) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}: 1 row: 2 columns are needed, as in the first line, not ...: line 7 ('a'); "
        "2 rows: the last column must be O, B-NAME or similar, not ...: line 9 ('PER'), "
        "line 11 ('PER'); correct them, or pass --on_bad_row=skip"
    )
