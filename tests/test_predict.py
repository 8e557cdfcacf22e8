"""`albert predict`: predictions of rows, whose texts stay as they are, and resuming."""

import csv
import gzip
import io
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert import inference
from albert.cli import predict
from albert.core.errors import FlagError, UserError
from albert.inference import rows
from albert.tables.extended_tables import ExtendedTable, usual_ending
from albert.tables.tables import open_table
from tests.helpers.files import limited
from tests.helpers.running import exit_code, fork
from tests.helpers.serving import LABELS, load_once, model_of

TEXTS = ["One word and another one.", 'Ten "words" here; a text, two lines:\nx', " A  word. ", "x"]


@pytest.fixture
def call(monkeypatch, tmp_path, capfdbinary):
    """Runs the command in this process and in an empty folder; returns its standard output."""
    monkeypatch.setattr(inference, "load_model", lambda path, *how: load_once(str(path), *how))
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object, standard_input: bytes = b"") -> bytes:
        stream = io.TextIOWrapper(io.BytesIO(standard_input), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", stream)
        with monkeypatch.context() as patch:
            out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
            patch.setattr(sys, "stdout", out)
            predict.main(predict.parse(["albert predict", *map(str, arguments)]))
            return out.buffer.getvalue()

    return call


def csv_of(records: list[list[str]], delimiter: str = ",") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows(records)
    return out.getvalue()


def rows_of(path: str) -> list[dict]:
    return [dict(row) for _, row in open_table(path).rows()]


def near(value: float | str) -> object:
    return pytest.approx(float(value), abs=1e-5)


def test_labels_are_those_of_classify_all(call, random_model, write):
    folder = model_of(random_model, "labels")
    expected = load_once(folder).classify_all([(text, "a second text") for text in TEXTS])
    table = [["id", "text_a", "text_b"], *([n, t, "a second text"] for n, t in enumerate(TEXTS))]
    path = write("\ufeff" + csv_of(table), "new.csv")
    call(folder, path, "--probabilities")
    assert not list(pathlib.Path().glob("*.partial*")) and not list(pathlib.Path().glob("*.lock"))
    found = rows_of("new.predicted.csv")
    for row, text, prediction in zip(found, TEXTS, expected, strict=True):
        assert (row["text_a"], row["prediction"]) == (text, prediction.label)
        shares = prediction.probabilities
        assert float(row["confidence"]) == near(shares[prediction.label])
        for label in LABELS:
            assert float(row[f"probability {label}"]) == near(shares[label])
    # Without the second column, other rows of a batch do not matter.
    write(csv_of([["message"], *([text] for text in TEXTS)], ";"), "own.csv")
    call(folder, "own.csv", "--output=own.jsonl", "--text_column=message")
    alone = [load_once(folder).classify(text) for text in TEXTS]
    found = rows_of("own.jsonl")
    assert [row["message"] for row in found] == TEXTS
    assert [row["prediction"] for row in found] == [one.label for one in alone]
    highest = [near(max(one.probabilities.values())) for one in alone]
    assert [row["confidence"] for row in found] == highest


def test_numbers_sets_and_spans_have_their_forms(call, random_model, write):
    lines = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    write(lines, "new.jsonl")
    model = load_once(model_of(random_model, "number"))
    call(model.folder.path, "new.jsonl", "--output=numbers.csv")
    numbers = [near(model.classify(text).number) for text in TEXTS]
    assert [float(row["prediction"]) for row in rows_of("numbers.csv")] == numbers
    assert "confidence" not in rows_of("numbers.csv")[0]
    model = load_once(model_of(random_model, "sets"))
    call(model.folder.path, "new.jsonl", "--text_column=text")
    for row, one in zip(rows_of("new.predicted.jsonl"), map(model.classify, TEXTS), strict=True):
        assert row["prediction"] == one.labels
        least = min((one.probabilities[label] for label in one.labels), default=None)
        assert row["confidence"] == (None if least is None else near(least))
    model = load_once(model_of(random_model, "spans"))
    call(model.folder.path, "new.jsonl", "--output=spans.jsonl")
    call(model.folder.path, "new.jsonl", "--output=spans.csv")
    cells = [json.loads(row["prediction"]) for row in rows_of("spans.csv")]
    assert cells == [row["prediction"] for row in rows_of("spans.jsonl")] and any(cells)
    for spans, found in zip(cells, model.find_all(TEXTS), strict=True):
        for span, one in zip(spans, found, strict=True):
            assert [span[k] for k in ("start", "end", "text", "label")] == list(one[:4])
            assert span["probability"] == near(one.probability)


def test_answers_are_those_of_answer_all(call, exported, write):
    pairs = [("What comes after a word?", text) for text in TEXTS]
    document = [{"question": question, "context": context} for question, context in pairs]
    write(document, "new.json")
    call(exported, "new.json")
    found = rows_of("new.predicted.jsonl")
    for row, answered in zip(found, load_once(str(exported)).answer_all(pairs), strict=True):
        best = answered.answers[0]
        assert (row["prediction"], row["confidence"]) == (best.text, near(best.probability))
    plain = call(exported, "new.json", "--output=-").decode()
    assert [json.loads(line) for line in plain.splitlines()] == found


def test_text_lines_and_standard_input_work(call, random_model, write):
    folder = model_of(random_model, "labels")
    write("A text.\r\n\r\nA word.\n", "new.txt")
    call(folder, "new.txt")
    assert [row["text"] for row in rows_of("new.predicted.csv")] == ["A text.", "A word."]
    content = "text_a\tn\nA text.\t1\nA word.\t2"
    output = call(folder, "-", standard_input=content.encode()).decode()
    found, given = ([line.split("\t") for line in text.split("\n")] for text in (output, content))
    assert [row[:2] for row in found] == given
    assert output.split("\n")[0] == "text_a\tn\tprediction\tconfidence"


def test_a_compressed_table_is_read_and_the_output_is_plain(call, random_model, write):
    folder = model_of(random_model, "labels")
    write(gzip.compress(csv_of([["text_a"], *([text] for text in TEXTS)]).encode()), "new.csv.gz")
    call(folder, "new.csv.gz")
    assert [row["text_a"] for row in rows_of("new.predicted.csv")] == TEXTS
    write(gzip.compress(b"A text.\n\nA word.\n"), "new.txt.gz")
    call(folder, "new.txt.gz", "--output=lines.csv")
    assert [row["text"] for row in rows_of("lines.csv")] == ["A text.", "A word."]
    with pytest.raises(FlagError, match="the ending '.gz' is not one of .csv"):
        call(folder, "new.csv.gz", "--output=other.csv.gz")


def test_parquet_is_a_table(call, random_model, tmp_path, write, pyarrow):
    folder = model_of(random_model, "labels")
    write(b"PAR1 and no more PAR1", "bad.parquet")
    from pyarrow import parquet

    table = pyarrow.table({"text_a": TEXTS, "n": [[1], None, [], [2, 3]]})
    parquet.write_table(table, tmp_path / "new.parquet", row_group_size=2)
    call(folder, "new.parquet")
    found = rows_of("new.predicted.csv")
    assert [row["text_a"] for row in found] == TEXTS
    assert [row["n"] for row in found] == ["[1]", "", "[]", "[2, 3]"]
    with pytest.raises(UserError, match="bad.parquet cannot be read as Parquet"):
        call(folder, "bad.parquet")


# Cells, without characters that JSON escapes in other ways.
CELL = st.text(st.sampled_from('ab",;\t\n\r é\u2028😀'), max_size=6)
ADDED = {"prediction": 'x,"y";z', "confidence": 0.25}


@st.composite
def files(draw) -> tuple[str, bytes]:
    """Draws a file's ending and content, with any quotation and line ends."""
    ending = draw(st.sampled_from([".csv", ".tsv", ".jsonl"]))
    width, end = draw(st.integers(1, 3)), draw(st.sampled_from(["\n", "\r\n"]))
    header = [f"column {number}" for number in range(width)]
    cells = draw(st.lists(st.lists(CELL, min_size=width, max_size=width), min_size=1, max_size=5))
    delimiter = "\t" if ending == ".tsv" else draw(st.sampled_from([",", ";"]))

    def text(cell: str) -> str:
        if ending == ".tsv":
            cell = cell.translate({ord(c): "_" for c in "\t\r\n"})
        elif draw(st.booleans()) or any(c in cell for c in '",;\t\n\r'):
            return '"' + cell.replace('"', '""') + '"'
        return cell

    if ending == ".jsonl":
        spaces = draw(st.sampled_from(["", " ", "\t"]))
        lines = [
            spaces + json.dumps(dict(zip(header, row, strict=True)), ensure_ascii=False) + spaces
            for row in cells
        ]
    else:
        lines = [delimiter.join(map(text, row)) for row in [header, *cells]]
        lines = [*draw(st.sampled_from([[], [f"sep={delimiter}"]])), *lines]
    lines = [part for line in lines for part in draw(st.sampled_from([[line], [line, ""]]))]
    content = end.join(lines) + draw(st.sampled_from(["", end]))
    return ending, content.encode(draw(st.sampled_from(["utf-8", "utf-8-sig"])))


@given(files(), st.sampled_from(["", "", ".csv", ".tsv", ".jsonl"]))
@settings(max_examples=200)
def test_rows_keep_their_values_and_in_their_format_their_bytes(tmp_path_factory, file, other):
    own, content = file
    folder, ending = tmp_path_factory.getbasetemp(), other or own
    source, target = str(folder / f"from{own}"), str(folder / f"to{ending}")
    pathlib.Path(source).write_bytes(content)
    table = open_table(source)
    assert usual_ending(table) == own
    output = ExtendedTable(table, ending, list(ADDED))
    try:
        parts = [output.row(record, ADDED) for record in table.records()]
    except UserError as e:
        assert ending == ".tsv" != own and "TSV cannot hold a tab or a line end" in str(e)
        return
    pathlib.Path(target).write_bytes(output.head() + b"".join(parts))
    again = [row for _, row in open_table(target).rows()]
    values = [record.values for record in table.records() if record.values is not None]
    texts = {name: v if ending == ".jsonl" else str(v) for name, v in ADDED.items()}
    assert again == [{**(row or dict.fromkeys(table.columns, "")), **texts} for row in values]
    rest = []
    for record, part in zip(table.records(), parts, strict=True):
        text = record.text.encode()
        # What was added is one piece of the row.
        same = [a == b for a, b in zip(text, part, strict=False)]
        start = [*same, False].index(False)
        rest.append(part[:start] + part[len(part) - len(text) + start :])
    assert ending != own or output.mark + b"".join(rest) == content


def test_a_bad_row_is_named_or_stays_empty(call, random_model, write, log):
    folder = model_of(random_model, "labels")
    content = 'text_a,n\n"two\nlines",1\n,2\n,\n\nA text.,3\n  ,4\n'
    path = write(content, "new.csv")
    with pytest.raises(UserError, match="2 rows: text_a is empty: line 4, line 8; correct"):
        call(folder, path)
    assert os.listdir() == ["new.csv"]
    call(folder, path, "--on_bad_row=skip")
    (said,) = [line for line in log() if "skipped" in line]
    assert said == f"{path}: skipped 2 rows: text_a is empty: line 4, line 8"
    lines = pathlib.Path("new.predicted.csv").read_text().split("\n")
    assert lines[3:6] == [",2,,", ",,,", ""] and lines[7:] == ["  ,4,,", ""]
    write('{"text_a": 1}\n{"text_a": "x"}\n{"text": "x"}\n{"text_a": ""}\n', "new.jsonl")
    with pytest.raises(UserError, match="2 rows: text_a is missing or not a text: line 1, line 3"):
        call(folder, "new.jsonl")
    call(folder, "new.jsonl", "--on_bad_row=skip")
    assert len([line for line in log() if "skipped" in line]) == 2, "a line for each reason"
    found = rows_of("new.predicted.jsonl")
    assert [row["prediction"] is None for row in found] == [True, False, True, True]


def blocks_of(lines: list[bytes], seconds: float = 0.0):
    """Returns what `write_resumably` takes: blocks of seven lines after some of them."""

    def blocks_after(first: int):
        for start in range(first, len(lines), 7):
            time.sleep(seconds)
            yield len(lines[start : start + 7]), b"".join(lines[start : start + 7])

    return blocks_after


def test_a_killed_program_resumes_without_a_lost_or_repeated_row(tmp_path):
    path, lines, kills = tmp_path / "new.csv", [b"row %d\n" % n for n in range(900)], list[int]()
    randomness = random.Random(5)
    while not path.exists():
        child = fork(
            lambda: rows.write_resumably(str(path), ["a"], b"head\n", blocks_of(lines, 0.002))
        )
        if len(kills) < 12:
            time.sleep(randomness.uniform(0.0, 0.1))
            os.kill(child, signal.SIGKILL)
            kills.append(child)
        assert exit_code(child) in (0, -signal.SIGKILL)
    assert path.read_bytes() == b"head\n" + b"".join(lines) and len(kills) > 2
    # filelock leaves a file if it is killed while it removes the lock of a dead process.
    of_killed = tuple(f"new.csv.lock.break.{child}." for child in kills)
    assert [n for n in os.listdir(tmp_path) if not n.startswith(of_killed)] == ["new.csv"]


def test_an_interrupted_command_resumes_only_with_the_same_input(
    call, random_model, write, log, monkeypatch
):
    folder = model_of(random_model, "labels")
    table = [["text_a"], *([f"Text {'word ' * (n % 7)}{n}"] for n in range(40))]
    path = write(csv_of(table), "new.csv")
    # Blocks of 8 rows.
    monkeypatch.setattr(rows, "_OF_ROW", rows._MOST_CHARACTERS // 9)
    call(folder, path, "--output=whole.csv")
    predicted = rows.RowPredictor.predict
    calls = list[int]()

    def fail_late(self, texts):
        calls.append(len(texts))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return predicted(self, texts)

    def interrupt():
        calls.clear()
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(rows.RowPredictor, "predict", fail_late)
            call(folder, path, "--output=new.jsonl.csv")

    interrupt()
    # A line that was written after the last record of the progress is written again.
    with open("new.jsonl.csv.partial", "ab") as file:
        file.write(b"half a li")
    log()
    call(folder, path, "--output=new.jsonl.csv")
    assert "Resuming new.jsonl.csv after 24 lines or rows" in log()
    whole = pathlib.Path("whole.csv").read_bytes()
    assert pathlib.Path("new.jsonl.csv").read_bytes() == whole
    assert len(rows_of("whole.csv")) == 40 and len(os.listdir()) == 3
    pathlib.Path("new.jsonl.csv").unlink()
    interrupt()
    call(folder, path, "--output=new.jsonl.csv", "--probabilities")
    assert any(line.startswith("Starting new.jsonl.csv again: the input, the") for line in log())
    assert "probability no" in rows_of("new.jsonl.csv")[0]
    pathlib.Path("new.jsonl.csv").unlink()
    interrupt()
    write(csv_of([["text_a"], ["Another text."]]), "new.csv")
    call(model_of(random_model, "sets"), path, "--output=new.jsonl.csv")
    assert len(rows_of("new.jsonl.csv")) == 1 and len(os.listdir()) == 3


def test_another_run_does_not_continue_the_first_one(tmp_path):
    """Even if it is stopped before it has recorded anything."""
    path, lines = str(tmp_path / "new.csv"), [b"a%d\n" % n for n in range(6)]

    def stopping(first: int, blocks: list[bytes], after: int):
        for number, block in enumerate(blocks[first:], 1):
            yield 1, block
            if number == after:
                raise KeyboardInterrupt

    for mark, own, after in ((1, lines, 3), (2, [b"B0\n"] * 9, 1)):
        with pytest.raises(KeyboardInterrupt):
            rows.write_resumably(
                path, [mark], b"", lambda first, own=own, after=after: stopping(first, own, after)
            )
    (tmp_path / "new.csv.partial").write_bytes(b"B0\n" * 4)
    rows.write_resumably(path, [1], b"", lambda first: stopping(first, lines, 0))
    assert pathlib.Path(path).read_bytes() == b"".join(lines)


def test_a_full_disk_ends_in_one_line_and_the_rest_follows(tmp_path):
    path, lines = str(tmp_path / "new.csv"), [b"row %d\n" % n for n in range(300)]
    full = pytest.raises(UserError, match="csv.partial cannot be written: File too large; correct")
    with full, limited(resource.RLIMIT_FSIZE, 1000):
        rows.write_resumably(path, [], b"", blocks_of(lines))
    assert os.listdir(tmp_path).count("new.csv.partial") == 1
    rows.write_resumably(path, [], b"", blocks_of(lines))
    assert pathlib.Path(path).read_bytes() == b"".join(lines)


def test_an_input_that_changes_is_an_error(call, random_model, write, monkeypatch):
    path = write("text_a\nx\n", "new.csv")

    def change(self, texts):
        write("text_a\nx\nyyy\n", "new.csv")
        return [{} for _ in texts]

    monkeypatch.setattr(rows.RowPredictor, "predict", change)
    with pytest.raises(UserError, match="new.csv changed while it was read; repeat the command"):
        call(model_of(random_model, "labels"), path)
    assert "new.predicted.csv" not in os.listdir()


def test_columns_are_those_of_the_training(call, random_model, write, tmp_path_factory):
    folder = tmp_path_factory.mktemp("described") / "model"
    shutil.copytree(model_of(random_model, "labels"), folder)
    description = folder / "assets.extra" / "model.json"

    def describe(**values):
        own = json.loads(description.read_text())
        description.write_text(json.dumps({**own, **values}))
        load_once.cache_clear()

    write("topic,reply,review,text_b\na,b,c,d\n", "new.csv")

    def columns_of(*flags: str) -> list[str]:
        model = load_once(str(folder))
        args = predict.parse(["predict", str(folder), "new.csv", *flags])
        return predict._columns(args, model, open_table("new.csv"))

    assert columns_of() == ["review", "text_b"]
    assert columns_of("--text_b_column=topic") == ["review", "topic"]
    describe(text_column="topic", text_b_column="reply")
    assert columns_of() == ["topic", "reply"]
    assert columns_of("--text_column=review") == ["review", "reply"]
    describe(text_column="topic", text_b_column=None)
    assert columns_of() == ["topic"]
    describe(text_column="other")
    with pytest.raises(UserError, match="new.csv has no column other; found topic, reply, review"):
        columns_of()
    write("only\na\n", "new.csv")
    with pytest.raises(UserError, match="new.csv has no column other; found only; pass --text_col"):
        columns_of()


@pytest.mark.parametrize(
    ("kind", "arguments", "error", "part"),
    [
        ("options", ["new.csv"], FlagError, "chooses options: use choose_all of albert.load"),
        ("labels", ["."], UserError, "FILE . is a folder, not a file"),
        ("labels", ["new.csv", "--output=new.csv"], UserError, "new.csv already exists; give"),
        ("labels", ["new.csv", "--output=x.xls"], FlagError, "ending '.xls' is not one of .csv"),
        ("labels", ["questions.csv"], UserError, "questions.csv looks like questions: use"),
        ("labels", ["old.csv"], UserError, "old.csv: the column prediction exists already; rename"),
        ("labels", ["old.jsonl"], UserError, "old.jsonl, line 2: the column confidence exists"),
        ("labels", ["new.csv", "--text_b_column=b"], UserError, "no column b; found text_a"),
        ("labels", ["odd.jsonl", "--output=x.csv"], UserError, "line 2: the first row has no n;"),
        ("labels", ["tab.jsonl", "--output=x.tsv"], UserError, "line 1: TSV cannot hold a tab"),
        ("number", ["new.csv", "--probabilities"], FlagError, "no labels with probabilities"),
        ("spans", ["new.csv"], UserError, "new.csv has no column text; found text_a"),
        ("spans", ["new.csv", "--text_b_column=b"], FlagError, "reads no second text: remove"),
        ("questions", ["new.csv"], UserError, "new.csv has no column question; found text_a"),
        ("questions", ["new.csv", "--text_column=b"], FlagError, "reads context and question"),
    ],
)
def test_a_wrong_command_is_an_error(
    call, random_model, exported, write, kind, arguments, error, part
):
    write("text_a\nx\n", "new.csv")
    write("text_a,prediction\nx,\n", "old.csv")
    write("context,question\nx,y\n", "questions.csv")
    write('{"text_a": "x"}\n{"text_a": "x", "confidence": 1}\n', "old.jsonl")
    write('{"text_a": "x"}\n{"text_a": "x", "n": 1}\n', "odd.jsonl")
    write('{"text_a": "x\\ty"}\n', "tab.jsonl")
    before = sorted(os.listdir())
    model = str(exported) if kind == "questions" else model_of(random_model, kind)
    with pytest.raises(error) as caught:
        call(model, *arguments)
    assert type(caught.value) is error
    assert part in str(caught.value) and "\n" not in str(caught.value)
    assert sorted(os.listdir()) == before
