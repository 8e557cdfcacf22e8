"""`albert ask`: its output, its input, and its errors."""

import io
import json
import pathlib
import shutil
import sys

import pytest

from albert import inference
from albert.cli import ask
from albert.core.errors import FlagError, UserError
from albert.core.log import LOG
from albert.core.text import printable
from albert.tasks.squad.head import V2Options, make_v2_head
from tests.helpers.serving import load_once, model_of

QUESTION = "What comes after a word?"


@pytest.fixture(scope="module")
def texts(squad_dir, tmp_path_factory) -> list[pathlib.Path]:
    """Writes files with the paragraphs of the development set, on several lines."""
    folder, files = tmp_path_factory.mktemp("texts"), []
    for article in json.loads((squad_dir / "dev-v1.1.json").read_text())["data"]:
        files.append(folder / f"{len(files)}.txt")
        text = "\r\n".join(p["context"] for p in article["paragraphs"])
        files[-1].write_bytes(text.encode())
    return files


@pytest.fixture
def call(capsys, monkeypatch):
    """Runs the command in this process without changing its log; returns its output, notes last."""
    level = LOG.level
    monkeypatch.setattr(inference, "load_model", lambda path, *how: load_once(str(path), *how))

    def call(*arguments: object, standard_input: bytes = b"") -> str:
        stream = io.TextIOWrapper(io.BytesIO(standard_input), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", stream)
        ask.main(ask.parse(["albert ask", *map(str, arguments)]))
        return "".join(capsys.readouterr())

    yield call
    LOG.setLevel(level)


def rows(output: str) -> list[dict]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def test_an_answer_is_printed_with_its_place(call, exported, texts):
    arguments = [exported, "--context_file", *texts, "--question", QUESTION]
    (row,) = rows(call(*arguments, "--json", "--n_best=3"))
    first = row["answers"][0]
    assert (row["question"], row["answer"], len(row["answers"])) == (QUESTION, first["text"], 3)
    assert not row["abstains"] and row["no_answer_probability"] is None
    probabilities = [answer["probability"] for answer in row["answers"]]
    assert sorted(probabilities, reverse=True) == probabilities
    for answer in row["answers"]:
        text = pathlib.Path(answer["context"]).read_bytes().decode()
        assert text[answer["start"] :].startswith(answer["text"])
        line = text.split("\n")[answer["line"] - 1]
        assert line[answer["character"] - 1 :].startswith(answer["text"].split("\r")[0])
        assert answer["text"] in answer["sentence"]
    shown = call(*arguments, "--engine=openvino", "--precision=float32")
    where = f"{first['context']}, line {first['line']}, character {first['character']}:"
    text = printable(first["text"])
    assert f"\n{QUESTION}\n  {text}  ({first['probability']:.1%})\n    {where}\n" in shown
    # Marked on each of its lines.
    shown = " ".join(shown.split()).replace("] [", " ")
    assert f"[{' '.join(text.split())}]" in shown


def test_texts_and_questions_can_come_from_a_pipe(call, exported, texts):
    arguments = [exported, "-", "--json", "--question", QUESTION, "--question", "Where?"]
    given = [exported, "--context", "One word.", "--context", "Another one.", "--json"]
    typed = f"{QUESTION}\n\nWhere?\n".encode()
    for output, names in (
        (call(*arguments, standard_input=texts[0].read_bytes()), {"standard input"}),
        (call(*given, "--n_best=9", standard_input=typed), {"text 1", "text 2"}),
    ):
        assert [row["question"] for row in rows(output)] == [QUESTION, "Where?"]
        assert {a["context"] for row in rows(output) for a in row["answers"]} == names
    with pytest.raises(FlagError, match="the text, so pass the question with --question"):
        call(exported, "-", standard_input=b"a text")
    with pytest.raises(UserError, match="the input is not UTF-8"):
        call(*given, standard_input=b"caf\xe9?\n")


def test_odd_texts_are_printed_safely(call, exported, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    text = "Some words \033[2J of a text " * 30
    shown = call(exported, "--context", text, "--question", "What\a?", "--n_best=9")
    assert "\033" not in shown and "\a" not in shown and "What??" in shown
    lines = shown.splitlines()
    assert len(lines) > 6 and all(len(line) <= 62 for line in lines)
    assert lines[3].startswith("    text 1, line 1, character ")
    said = call(exported, "--context", "Это текст на другом языке.", "--question", "什么？")
    assert "什么？" in said and "of the pieces of the question; check that" in said
    assert "of the pieces of the text; check that" in said


def test_the_threshold_decides_about_abstaining(call, random_model, tmp_path):
    arguments = ["--context", "A text of words.", "--question", QUESTION]
    lengths = {"doc_stride": 16, "max_query_length": 20, "n_best_size": 5, "max_answer_length": 9}
    # As many as there are tokens, so that random weights have answers.
    tops = {"start_n_top": 40, "end_n_top": 40, "no_answer_threshold": -1e9}
    always = random_model(make_v2_head(V2Options()), task="squad-2.0", **lengths, **tops)
    never = shutil.copytree(always, tmp_path / "never")
    description = never / "assets.extra" / "model.json"
    text = json.dumps({**json.loads(description.read_text()), "no_answer_threshold": 1e9})
    description.write_text(text)
    for model, abstains in ((always, True), (never, False)):
        (row,) = rows(call(model, *arguments, "--json"))
        # The most probable random answer may have no letter.
        assert row["abstains"] == abstains
        assert row["answer"] == ("" if abstains else row["answers"][0]["text"])
        assert 0 < row["no_answer_probability"] < 1
        says = "no answer" if abstains else "there is an answer"
        assert f"  {says} (probability of no answer: " in call(model, *arguments)


def test_labels_are_printed_with_their_probabilities(call, random_model):
    model = model_of(random_model, "labels")
    pair = ("A text.", "Another one.")
    (row,) = rows(call(model, *pair, "--json"))
    shares = row["probabilities"]
    assert row["label"] == max(shares, key=shares.get) and sum(shares.values()) == pytest.approx(1)
    likeliest, other = call(model, *pair).splitlines()[:2]
    assert likeliest == f"{row['label']}  ({shares[row['label']]:.1%})" and other != likeliest
    typed = call(model, "--json", standard_input=b"A text. ||| Another one.\nA text.\n")
    assert [row["texts"] for row in rows(typed)] == [[*pair], ["A text."]]
    assert rows(typed)[0] == row
    assert call(model_of(random_model, "number"), "A text.").startswith("7\n")
    model = model_of(random_model, "sets")
    (row,) = rows(call(model, "A text.", "--json"))
    assert row["labels"] == [name for name, p in row["probabilities"].items() if p >= 0.5]
    shares = sorted(row["probabilities"].items(), key=lambda pair: -pair[1])
    lines = [f"{'* ' if name in row['labels'] else '  '}{name}  ({p:.1%})" for name, p in shares]
    assert call(model, "A text.").splitlines() == lines


def test_spans_are_marked_and_listed(call, random_model, monkeypatch):
    model, text = model_of(random_model, "spans"), "Anna went\nto Rome \033 and\u00a0Berlin."
    expected = load_once(model).find(text)
    assert expected and all(text[span.start : span.end] == span.text for span in expected)
    (labelled,) = rows(call(model, text, "--json"))
    assert labelled["text"] == text
    for span, row in zip(expected, labelled["spans"], strict=True):
        assert (row["start"], row["end"], row["text"], row["label"]) == span[:4]
        assert row["probability"] == pytest.approx(span.probability)
    shown = call(model, text)
    marked, end = "", 0
    for span in expected:
        marked += f"{text[end : span.start]}[{span.text}]"
        end = span.end
    assert " ".join(printable(marked + text[end:]).split()) in " ".join(shown.split())
    for span in expected:
        assert f"  {span.label}  {printable(span.text)}  ({span.probability:.1%})\n" in shown
    typed = call(model, "--json", standard_input=b"Anna went.\n\nTo Rome.\n")
    assert [row["text"] for row in rows(typed)] == ["Anna went.", "To Rome."]
    assert [row["text"] for row in rows(call(model, "a", "b", "c", "--json"))] == ["a", "b", "c"]
    with pytest.raises(FlagError, match="labels texts: remove --question and --questions"):
        call(model, "a", "--question", "Who?")


@pytest.mark.parametrize(
    ("arguments", "error", "part"),
    [
        (["--question", "Who?"], FlagError, "answers from a text: pass --context_file FILE"),
        (["--context", "a", "--question", " "], FlagError, "--question is empty"),
        (["--context", " \n", "--question", "Who?"], UserError, "--context is empty"),
        (["--context_file", "."], UserError, ". cannot be read: Is a directory"),
        (["--context_file", "{0}"], UserError, "is not UTF-8 text: byte 3"),
        (["-", "--context_file", "-"], FlagError, "standard input can be read only once"),
        (["A text."], FlagError, "answers from a text"),
        (["A text.", "--context", "a"], FlagError, "answers questions about texts: pass texts"),
        (["--context", "a", "--n_best=0"], FlagError, "--n_best must be positive"),
        (["--question", "caf\udce9?"], FlagError, "'caf\\udce9?' is not UTF-8 text"),
        (["-"], UserError, "standard input is empty"),
        (["a", "b", "c"], FlagError, "labels a text or a pair of texts, not 3 texts"),
        (["a", "--question", "Who?"], FlagError, "labels texts: remove --question"),
        ([" "], FlagError, "the text is empty"),
        (["--context", "a"], FlagError, "chooses options: use choose_all of albert.load"),
    ],
)
def test_a_bad_input_is_an_error(call, exported, random_model, tmp_path, arguments, error, part):
    (tmp_path / "text").write_bytes(b"caf\xe9")
    kind = "labels" if "label" in part or part == "the text is empty" else "options"
    model = model_of(random_model, kind) if kind == "labels" or "choose" in part else exported
    with pytest.raises(error) as caught:
        call(model, *(argument.format(tmp_path / "text") for argument in arguments))
    assert type(caught.value) is error
    assert part in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_of_questions_gets_a_table_of_answers(call, exported, texts, tmp_path, log):
    questions = [QUESTION, "Where, and who?", "Is it one word?"]
    (tmp_path / "questions.txt").write_text("\n\n".join(questions) + "\n")
    arguments = [exported, "--context_file", *texts, "--questions"]
    model = load_once(str(exported), "auto", "auto", None)
    contexts = {str(path): path.read_bytes().decode() for path in texts}
    expected = [model.answer(question, contexts.values()) for question in questions]
    tokenized = list[str]()
    encode = model.folder.tokenizer.encode_with_offsets
    model.folder.tokenizer.encode_with_offsets = lambda text: tokenized.append(text) or encode(text)
    try:
        call(*arguments, tmp_path / "questions.txt", "--output", tmp_path / "answers.jsonl")
    finally:
        del model.folder.tokenizer.encode_with_offsets
    assert sorted(tokenized) == sorted(contexts.values())
    said = log()
    assert any(line.startswith("Answering 3 questions, each from the") for line in said)
    assert any(line.startswith("Answered the first in ") for line in said)
    found = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    for row, question, answered in zip(found, questions, expected, strict=True):
        best = answered.answers[0]
        assert (row["question"], row["answer"]) == (question, best.text)
        assert row["document"] == [*contexts][best.context]
        assert row["probability"] == pytest.approx(best.probability, abs=1e-5)
        line = contexts[row["document"]].split("\n")[row["line"] - 1]
        assert line[row["character"] - 1 :].startswith(best.text.split("\r")[0])
    # A question of one character is the same object when it is repeated.
    (tmp_path / "signs.txt").write_text("?\n?\n")
    call(*arguments, tmp_path / "signs.txt")
    assert sum(line.startswith("Answered the first in ") for line in log()) == 1
    # A table keeps its other columns; without --output, it is printed.
    (tmp_path / "some.csv").write_bytes(b'id;question\r\n"a";"Where, and who?"\r\n')
    printed = call(*arguments, tmp_path / "some.csv")
    head, row, _ = printed.split("\r\n")[:3]
    assert head == "id;question;answer;probability;document;line;character"
    assert row.startswith('"a";"Where, and who?";')


@pytest.mark.parametrize(
    ("arguments", "error", "part"),
    [
        (["--output=x.csv"], FlagError, "--output needs --questions"),
        (["--questions=x", "--json"], FlagError, "--questions needs no --question, --json or"),
        (["--questions={0}/own.csv"], UserError, "own.csv has no column question; found a, b"),
        (["--questions={0}/empty.csv"], UserError, "question is empty: line 3; correct them"),
        (["--questions={0}/q.txt", "--output={0}/own.csv"], UserError, "own.csv already exists"),
        (["--questions={0}/q.txt", "--output=x.xls"], FlagError, "the ending '.xls' is not one"),
    ],
)
def test_a_bad_file_of_questions_is_an_error(call, exported, tmp_path, arguments, error, part):
    (tmp_path / "own.csv").write_text("a,b\n1,2\n")
    (tmp_path / "empty.csv").write_text("a,question\n1,Who?\n1,\n")
    (tmp_path / "q.txt").write_text("Who?\n")
    with pytest.raises(error) as caught:
        call(exported, "--context=A word.", *(one.format(tmp_path) for one in arguments))
    assert type(caught.value) is error
    assert part in str(caught.value) and "\n" not in str(caught.value)
