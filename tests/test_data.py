"""`albert data`: what it reports about a file, and SQuAD's JSON made of a table."""

import json
import os
import pathlib
import re

import pytest

from albert.cli import data
from albert.cli.data import DataSettings
from albert.core.errors import FlagError, UserError
from albert.tables.kinds import look_of
from albert.tasks.squad.feature_files import read_examples
from albert.tasks.squad.questions import Questions, QuestionSource
from tests.helpers.running import albert, assert_fails, run

TABLE = """\
context;question;answer;id;note
"The Tamar is 98 km long;
it is a river.";How long is it?;98 km;a;
"The Tamar is 98 km long;
it is a river.";Who bridged it?;;b;x
The Severn is long.;Is the Severn long?;is;c;
"""


REPORT = """\
  columns used      context, question, answer, id
  columns ignored   note
  contexts          2
  questions         3
  unanswerable      1; train with `albert squad 2.0`

example 1, id a
  question          How long is it?
  answer            98 km
  context           The Tamar is [98 km] long; it is a river.

example 2, id b
  question          Who bridged it?
  answer            no answer
  context           The Tamar is 98 km long; it is a river.
"""


@pytest.fixture
def table(write):
    return pathlib.Path(write(TABLE, "table.csv"))


@pytest.fixture
def call(call_of):
    return call_of(data.main, DataSettings)


def test_check_reports_counts_and_shows_examples(call, table):
    assert call("check", table, "--num_examples=2") == f"{table}: CSV with semicolons\n{REPORT}"


CONTEXT = "The Tamar is 98 km long. It is a river."


def squad(*questions: dict, **more: object) -> dict:
    """Returns SQuAD's JSON; each question has an answer at its place, unless it has others."""
    answer = {"text": "98 km", "answer_start": 13}
    qas = [
        {"id": f"q{n}", "question": f"How long? {n}", "answers": [answer], **question}
        for n, question in enumerate(questions)
    ]
    return {"data": [{"paragraphs": [{"context": CONTEXT, "qas": qas}]}], **more}


def answers(**members: object) -> dict:
    return {"answers": [{"text": "98 km", "answer_start": 13, **members}]}


# Questions after a good one, and why a training skips them.
SKIPPED = [
    (answers(answer_start=10**400), "the answer is not at its answer_start"),
    ({"question": " "}, "the question is empty"),
    ({"answers": []}, "there is no answer"),
]


@pytest.mark.parametrize(("question", "reason"), SKIPPED)
def test_check_counts_what_a_training_skips(call, capsys, write, question, reason):
    path = write(squad({}, question))
    with pytest.raises(UserError, match=f"^{path}: 1 question: {reason}: q1; correct them, or"):
        call("check", path)
    shown = capsys.readouterr().out
    assert "The Tamar is [98 km] long." in shown and shown.count("[") == 1
    assert "[98 km]" in call("check", path, "--on_bad_row=skip")
    examples, skipped = read_examples(Questions(QuestionSource(path)), is_training=True)
    assert ([e.qas_id for e in examples], skipped) == (["q0"], {reason: 1})


def test_a_wrong_start_is_corrected_if_the_answer_occurs_once(call, write):
    path = write(squad(answers(answer_start=3), answers(text="is", answer_start=-1)))
    shown = call("check", path, "--on_bad_row=lenient")
    assert "questions         1\n" in shown and "The Tamar is [98 km] long." in shown


def test_check_counts_what_only_one_version_trains_on(call, write):
    """A repeated question, one with several answers, and unanswerable ones."""
    several = {"answers": [*answers()["answers"], {"text": "long", "answer_start": 19}]}
    none = {"answers": [], "is_impossible": True}
    path = write(squad({}, {"question": "How long? 0"}, several, none, {"answers": []}))
    shown = call("check", path).partition("\n\n")[0].splitlines()[2:]
    assert shown == [
        "  questions         5",
        "  repeated          1 have the text and the context of another one",
        "  unanswerable      1; train with `albert squad 2.0`",
        "  several answers   1; for --predict_file, or train with --answers=first or all",
        "  without answers   1; only for --predict_file",
    ]
    # Nothing can be trained on, so it is a file to predict.
    assert "without answers   1" in call("check", write(squad({"answers": []})))
    impossible = answers() | {"is_impossible": True}
    with pytest.raises(UserError, match="1 question: it is impossible, and has an answer: q0"):
        call("check", write(squad(impossible)))


def test_check_of_a_table_with_unknown_columns_names_the_flags_for_labels(call, write):
    rows = "x,y\nz,y\nw,v\nu,v\n"
    assert "label y" in call("check", write(f"message,topic\n{rows}")), "the names are plain"
    flags = "no column may be the label; pass --label_column=NAME, one of note, kind"
    with pytest.raises(UserError, match=f"nor columns context and question; for labels: {flags}$"):
        call("check", write("note,kind\nx,y\n"))
    for column in ("Topic", "message"):
        with pytest.raises(UserError, match="line 1: Topic is missing; found m|one column cannot"):
            words = "--text_column=message", f"--label_column={column}"
            call("check", write(f"message,topic\n{rows}"), *words)


TEXTS = "A good day at sea", "A bad day", "The best day", "My worst day"


@pytest.mark.parametrize(
    ("lines", "flags", "message"),
    [
        ("{}@up {}@down {}@up {}@down", [], "row is no header; add one, such as text_a@l"),
        ("up\t{} down\t{} up\t{} down\t{}", [], "add one, such as text_a<tab>label"),
        ("{}|4.5 {}|3 {}|1 {}|2.5", ["--tsv_regression"], r"add one, such as text_a\|label"),
        (
            *("{};up {};down {};up {};down", [f"--text_column={TEXTS[0]}", "--label_column=up"]),
            "the first row is no header",
        ),
        (
            *("id,text,wet,old 1,{},1,0 2,{},0,0 3,{},0,0 4,{},1,0", ["--kind=labels"]),
            "--label_column=NAME, one of wet, old; if each is a label, pass --label_columns=wet,o",
        ),
        ("text,wet {},1", ["--label_columns=wet,old"], "line 1: old is missing; found text, wet$"),
        ("text,wet {},1", ["--label_columns=wet,wet"], r"one column cannot .* label \(wet, wet\)"),
        ("text,label", [], "it has no examples$"),
        (
            "text,label {},a {},b",
            ["--label_columns=label", "--label_column=text"],
            "--label_column and --label_columns exclude each other$",
        ),
    ],
)
def test_check_refuses_what_a_training_refuses(call, write, lines, flags, message):
    texts = iter(TEXTS)
    content = "\n".join(lines.split(" ")) + "\n"
    content = re.sub("{}", lambda _: next(texts), content)
    with pytest.raises(UserError, match=message):
        call("check", write(content), *flags)


def test_check_counts_labels_of_columns_spellings_and_rejected_rows(call, write):
    content = "text,wet,old,answer\n" + "".join(
        f"{text},{cells}\n"
        for text, cells in zip(TEXTS, ("1,0,accept", "0,0,", "1,1.0,", "0,0,reject"), strict=True)
    )
    shown = call("check", write(content), "--label_columns=wet,old", "--num_examples=0")
    assert shown.splitlines()[1:] == [
        "  columns used      text, wet, old",
        "  columns ignored   answer",
        "  texts             3",
        "  label wet         2 (66.7%)",
        "  label (no label)  1 (33.3%)",
        "  label old         1 (33.3%)",
        "  note              rows skipped with the answer reject: 1",
    ]
    shown = call("check", write("text,label\na b,0\nc d,0.0\ne f,False\ng h,1\n"))
    assert "label 0           3 (75.0%)\n  label 1           1 (25.0%)\n" in shown
    assert "note              labels 0.0 read as 0: 1\n" in shown


ROW = {"id": 7, "title": "t", "context": CONTEXT, "question": "How long?"}
GOOD = {**ROW, **answers()}
LISTS = {"text": ["98 km"], "answer_start": [13]}
DETECTED = {"text": "98 KM", "char_spans": [[13, 17]]}
OF_MRQA = {"qid": "7", "question": "How long?", "answers": ["98 KM"]}
OF_MRQA["detected_answers"] = [DETECTED]
SQUAD = squad({"id": 7, "question": "How long?"})
SQUAD_QUESTION = SQUAD["data"][0]["paragraphs"][0]["qas"][0]
PARAGRAPHS = SQUAD["data"][0]["paragraphs"]
CELLS = f'sep=;\ncontext;question;answer;id\n"{CONTEXT}";How long?;98 km;7\n;;;\n'
# Files with one question, in all forms.
FORMS = {
    "SQuAD JSON": SQUAD,
    "JSON": {"version": 1, "data": [{**ROW, "answers": LISTS}]},
    "JSON, an array": [GOOD],
    "JSON with a list of contexts": PARAGRAPHS,
    "JSON with a list of contexts, as data": {"data": PARAGRAPHS},
    "JSON Lines": json.dumps(GOOD) + "\n\n",
    "CSV with semicolons": CELLS,
    "CSV": f"id,context,question,answers\n7,{CONTEXT},How long?,"
    "\"{'text': array(['98 km'], dtype=object), 'answer_start': array([13], dtype=int32)}\"\n",
    "JSON, rows of the Hub": {"features": [], "rows": [{"row_idx": 0, "row": GOOD}]},
    "JSON Lines of MRQA": '{"header": {"dataset": "x"}}\n'
    + json.dumps({"context": CONTEXT, "qas": [OF_MRQA]})
    + "\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_questions_is_read_and_converted(call, write, tmp_path, form):
    path = write(FORMS[form])
    assert look_of(path).kind == "questions"
    shown = call("check", path)
    assert shown.startswith(f"{path}: {form.partition(',')[0]}\n")
    assert "questions         1\n" in shown and "The Tamar is [98 km] long." in shown
    ((context, question),) = Questions(QuestionSource(path))
    assert (context, question["id"], question["question"]) == (CONTEXT, "7", "How long?")
    (example,) = read_examples(Questions(QuestionSource(path)), is_training=True)[0]
    assert (example.orig_answer_text, example.start_position) == ("98 km", 13)
    if form == "SQuAD JSON":
        with pytest.raises(UserError, match="is SQuAD's JSON already"):
            call("convert", path, tmp_path / "out.json")
        return
    call("convert", path, tmp_path / "out.json")
    ((context, question),) = Questions(QuestionSource(str(tmp_path / "out.json")))
    assert (context, question["id"]) == (CONTEXT, "7")


LABELS = """\
label,text_a,text_b,note
yes,x,,
no,x,,
yes,x,,
no,y z,x,
"""
LABEL_REPORT = """\
  columns used      text_a, text_b, label
  columns ignored   note
  texts             4
  label yes         2 (50.0%)
  label no          2 (50.0%)
  repeated          2 have the texts of an earlier row, 1 of them other labels

example 1, line 2
  text              x
  label             yes
"""


def test_check_reports_labels(call, write):
    path = write(LABELS)
    report = f"{path}: CSV\n{LABEL_REPORT}"
    assert call("check", path, "--num_examples=1") == report
    renamed = write(LABELS.replace("label", "topic").replace("text_a", "context"))
    flags = "--label_column=topic", "--text_column=context", "--num_examples=0"
    assert "  label yes         2" in call("check", renamed, *flags)
    path = write(f"{LABELS},x,,\nno,,,\n")
    with pytest.raises(UserError, match="1 row: label is missing: line 6; 1 row: text_a is empty"):
        call("check", path)
    assert call("check", path, "--num_examples=1", "--on_bad_row=skip").endswith(report)
    with pytest.raises(FlagError, match="--on_bad_row=first is for questions only"):
        call("check", path, "--on_bad_row=first")
    path = write('{"text_a": "x", "label": ["a, b", "c"]}\n{"text_a": "y", "label": []}')
    shown = call("check", path, "--multi_label")
    assert "  label a, b        1 (50.0%)\n  label c           1 (50.0%)\n  label (no lab" in shown
    path = write("text_a,label\nx,2\ny,-1e1\n")
    assert "  numbers           from -10 to 2\n" in call("check", path, "--tsv_regression")
    assert "texts             2" in call("check", write("text_a\nx\ny\n"))


@pytest.mark.parametrize(
    ("content", "look"),
    [
        ("", "an empty file"),
        ("<?xml version='1.0'?><a/>", "XML or HTML"),
        ("label,text_a\nx,y\n", "a table of labels"),
        ("text,label\nx,y\n", "a table of labels"),
        ("The O\nTamar B-NAME\n", "tokens and tags as in CoNLL"),
        ("-DOCSTART- -X- O\n\nThe x O\n", "tokens and tags as in CoNLL"),
        ('{"text": "Ida.", "label": [[0, 3, "P"]]}\n', "annotated texts of doccano or spaCy"),
        ([{"text": "Ida.", "label": [{"start": 0, "end": 3}]}], "annotated texts of Label Studio"),
        ([{"data": {"text": "Ida."}, "annotations": []}], "annotated texts of Label Studio"),
        ('{"text": "Ida.", "spans": []}', "annotated texts"),
        ('{"text": "Ida.", "label": []}\n{"text": "Ida.", "label": [[0, 3, "P"]]}\n', "annotated"),
        ('{"words": ["Ida"], "labels": ["B-P"]}\n', "tokens and tags: use `albert entities`"),
        ("Sentence #,Word,POS,Tag\n1,Ida,X,B-P\n", "tokens and tags: use `albert entities`"),
        ("Ida NAME\nsaw O\nRome PLACE\n", "tokens and tags as in CoNLL"),
        ("1\tIda\ta\tb\tc\td\te\tf\tg\t_\n", "tokens and tags as in CoNLL"),
        ([{"id": "1", "prediction_text": "x"}], "predictions; pass them to `albert evaluate`"),
        ("word,sentence,label\nx,y z,T\n", "a table of labels: use `albert classify`"),
    ],
)
def test_a_file_without_questions_is_named(write, content, look):
    with pytest.raises(UserError, match=f"is not SQuAD: .*; it looks like {look}[^\n]*$"):
        len(Questions(QuestionSource(write(content))))
    is_entities = look.startswith(("annotated", "tokens and tags"))
    kind = "labels" if look.startswith("a table of labels") else ""
    assert look_of(write(content)).kind == ("entities" if is_entities else kind)


def test_check_accepts_questions_without_answers(call, table):
    table.write_text(TABLE.replace("answer", "antwort"))
    shown = call("check", table)
    assert "  columns ignored   antwort, note\n" in shown
    assert "  without answers   3; only for --predict_file\n" in shown
    assert "  answer            unknown\n" in shown


def test_check_shows_a_part_of_a_long_context(call, tmp_path):
    text, question = f"{'a ' * 500_000}needle {'b ' * 500_000}", "Where? " * 100_000
    (tmp_path / "table").write_text(f"context,question,answer\n{text},{question},needle\n")
    shown = call("check", tmp_path / "table")
    assert "a [needle] b" in shown and len(shown) < 2500


@pytest.mark.parametrize(
    "content",
    [
        [{"context": CONTEXT, "qas": [{**SQUAD_QUESTION, "id": "1", "is_impossible": True}]}],
        [{"context": CONTEXT, "qas": [{**SQUAD_QUESTION, "id": "1", "answers": []}]}],
        json.dumps({**ROW, **answers(), "id": "1", "is_impossible": True}) + "\n",
        json.dumps({**ROW, "answer": "", "id": "1", "is_impossible": False}) + "\n",
    ],
)
def test_convert_writes_no_question_that_a_check_refuses(call, write, tmp_path, content):
    good = PARAGRAPHS if isinstance(content, list) else json.dumps(GOOD) + "\n"
    path, target = write(content + good), tmp_path / "out.json"
    for action in ("skip", "lenient"):
        assert call("convert", path, target, f"--on_bad_row={action}") == f"{target}: 1 questions\n"
        assert "questions         1\n" in call("check", target)
        target.unlink()
    with pytest.raises(UserError, match="1 (row|question): .*: 1; correct"):
        call("convert", path, target)


def test_convert_writes_entities_as_json_with_spans(call, write, tmp_path):
    point = {"start": 4, "end": 8, "label": "RIVER"}
    path, target = write(json.dumps({"text": CONTEXT, "spans": [point]})), tmp_path / "out.jsonl"
    shown = call("convert", path, target, "--offsets=inclusive")
    ends = "their ends are now after their last characters"
    assert shown == f"{target}: 1 texts, 1 entities; {ends}\n"
    spans = [{**point, "end": 9, "text": "Tamar"}]
    assert json.loads(target.read_text()) == {"text": CONTEXT, "spans": spans}
    assert "The [Tamar] is" in call("check", target)
    with pytest.raises(UserError, match="already exists"):
        call("convert", path, target)


def test_convert_replaces_nothing(call, table, tmp_path):
    """Neither its table, nor a folder, a device or a link to a missing file."""
    (tmp_path / "out.json").symlink_to("missing")
    for path in (table, tmp_path, tmp_path / "out.json", "/dev/null"):
        with pytest.raises(UserError, match=f"^{path} already exists; give another name, or"):
            call("convert", table, path)
    assert table.read_text() == TABLE


def test_convert_writes_nothing_if_rows_are_bad(call, table, tmp_path):
    table.write_text(TABLE + "No.;Is it?;yes;d;\n")
    target = tmp_path / "out.json"
    with pytest.raises(UserError, match="1 row: the answer does not occur"):
        call("convert", table, target)
    assert os.listdir(tmp_path) == ["table.csv"]
    assert call("convert", table, target, "--on_bad_row=skip") == f"{target}: 3 questions\n"
    assert json.loads(target.read_text())["version"] == "v2.0"
    target.unlink()
    for content, message in (("context,question,answer\n", "no usable questions"), ("{}", "JSON")):
        table.write_text(content)
        with pytest.raises(UserError, match=message):
            call("convert", table, target)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "pass check or convert before the file; see --help"),
        ("look x", "pass check or convert before the file; see --help"),
        ("check a b", "check needs one file; see --help"),
        ("convert a", "convert needs a file and the name of a new file; see --help"),
    ],
)
def test_wrong_words_are_an_error(words, message):
    assert_fails(run(albert("data", *words.split())), 2, message)
