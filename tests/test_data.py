"""`albert data`: what it reports about a file, and SQuAD's JSON made of a table."""

import json
import os

import pytest

from albert.cli import data
from albert.cli.data import DataSettings
from albert.core.errors import UserError
from albert.tasks.squad.questions import Questions, QuestionSource, articles_of
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
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return path


@pytest.fixture
def call(call_of):
    return call_of(data.main, DataSettings)


def test_check_reports_counts_and_shows_examples(call, table):
    assert call("check", table, "--num_examples=2") == f"{table}: CSV with semicolons\n{REPORT}"


def test_check_accepts_squads_json(call, squad_dir):
    path = squad_dir / "dev-v1.1.json"
    first, *examples = call("check", path).split("\n\n")
    counts = ["  contexts          4", "  questions         12"]
    assert first.splitlines() == [f"{path}: SQuAD JSON", *counts]
    assert len(examples) == 5 and all("[" in example for example in examples)


@pytest.mark.parametrize("start", [10**400, 1e300, "9", "missing"])
def test_check_shows_squads_json_with_any_start(call, tmp_path, start):
    answer = {"text": "98 km"} | ({} if start == "missing" else {"answer_start": start})
    qas = [{"id": "a", "question": "How long?", "answers": [answer]}]
    paragraphs = [{"context": "The Tamar is 98 km long.", "qas": qas}]
    (tmp_path / "file").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    shown = call("check", tmp_path / "file")
    assert "answer            98 km\n" in shown
    assert isinstance(start, int) or "The Tamar is [98 km] long." in shown


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


def test_check_fails_after_its_report_if_rows_are_bad(call, table, capsys):
    table.write_text(TABLE + "No.;Is it?;yes;d;\n")
    with pytest.raises(UserError, match="table.csv: 1 row: the answer does not occur .* line 7"):
        call("check", table)
    assert "questions         3\n" in capsys.readouterr().out
    assert "questions         3\n" in call("check", table, "--on_bad_row=skip")


def test_convert_writes_what_a_training_reads(call, table, tmp_path):
    target = tmp_path / "out.json"
    assert call("convert", table, target) == f"{target}: 3 questions\n"
    content = json.loads(target.read_text())
    assert content["version"] == "v2.0"
    for path in (target, table):
        paragraphs = Questions(QuestionSource(str(path))).paragraphs(is_training=True)
        assert content["data"] == list(articles_of(paragraphs))


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_convert_replaces_nothing(call, table, tmp_path, link):
    """Neither its table under any name, nor a file, a folder or a link."""
    name, target = table if link is None else tmp_path / "other", tmp_path / "out.json"
    if link:
        link(table, name)
    target.symlink_to("missing") if link else target.write_text("keep")
    for path, message in (
        (name, "is the table itself; name another file"),
        (tmp_path, "is a folder; name a file"),
        (target, "already exists; give another name, or remove"),
        ("/dev/null", "is not a regular file"),
    ):
        with pytest.raises(UserError, match=f"^{path} {message}"):
            call("convert", table, path)
    assert table.read_text() == TABLE and target.is_symlink() == bool(link)
    assert link or target.read_text() == "keep"


def test_convert_writes_nothing_if_rows_are_bad(call, table, tmp_path):
    table.write_text(TABLE + "No.;Is it?;yes;d;\n")
    target = tmp_path / "out.json"
    with pytest.raises(UserError, match="1 row: the answer does not occur"):
        call("convert", table, target)
    assert os.listdir(tmp_path) == ["table.csv"]
    assert call("convert", table, target, "--on_bad_row=skip") == f"{target}: 3 questions\n"
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
