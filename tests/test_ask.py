"""The command ask.py: what it prints, what it takes, and what it says of what it cannot use."""

from __future__ import annotations

import functools
import io
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys

import numpy as np
import pytest

import answering
import ask
from answering import load_model
from glue.head import make_head
from looking.terminal import printable
from race.head import make_race_head
from runtime.errors import FlagError, UserError
from runtime.log import LOG
from squad.head_v2 import V2Options, make_v2_head
from tests.helpers.forking import LONGEST, ROOT
from tests.helpers.running import run

# Tests share a model.
load_once = functools.cache(load_model)
QUESTION = "What comes after a word?"


@pytest.fixture(autouse=True)
def usual_log():
    """The command logs warnings only; this process goes on with other tests."""
    level = LOG.level
    yield
    LOG.setLevel(level)


@pytest.fixture(scope="module")
def sentences(random_model) -> str:
    """A model that labels pairs."""
    labels = ["no", "yes"]
    return random_model(make_head(2, 0.0), task="glue", labels=labels, limits=None)


@pytest.fixture(scope="module")
def texts(squad_dir, tmp_path_factory) -> list[pathlib.Path]:
    """Files with the paragraphs of the development set, on several lines."""
    content = json.loads((squad_dir / "dev-v1.1.json").read_text())
    folder = tmp_path_factory.mktemp("texts")
    files = []
    for number, article in enumerate(content["data"]):
        files.append(folder / f"{number}.txt")
        text = "\r\n".join(p["context"] for p in article["paragraphs"])
        files[-1].write_text(text, encoding="utf-8", newline="")
    return files


@pytest.fixture
def asked(capsys, monkeypatch):
    """Runs the command in this process; what it prints."""

    def asked(*arguments: object, standard_input: str | bytes = b"") -> str:
        if isinstance(standard_input, str):
            standard_input = standard_input.encode()
        stream = io.TextIOWrapper(io.BytesIO(standard_input), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", stream)
        monkeypatch.setattr(answering, "load_model", load_once)
        ask.main(ask.parse(["ask.py", *map(str, arguments)]))
        return capsys.readouterr().out

    return asked


def rows(output: str) -> list[dict]:
    return [json.loads(line) for line in output.splitlines()]


def test_an_answer_and_its_place(asked, exported, texts):
    arguments = [exported, "--context_file", *texts, "--question", QUESTION]
    (found,) = rows(asked(*arguments, "--json", "--n_best=3"))
    assert found["question"] == QUESTION and len(found["answers"]) == 3
    assert found["answer"] == found["answers"][0]["text"]
    assert not found["abstains"] and found["no_answer_probability"] is None
    probabilities = [answer["probability"] for answer in found["answers"]]
    assert sorted(probabilities, reverse=True) == probabilities
    for answer in found["answers"]:
        text = pathlib.Path(answer["context"]).read_bytes().decode()
        assert text[answer["start"] :].startswith(answer["text"])
        line = text.split("\n")[answer["line"] - 1]
        assert line[answer["character"] - 1 :].startswith(answer["text"].split("\r")[0])
        assert answer["text"] in answer["sentence"]
    first = found["answers"][0]
    shown = asked(*arguments)
    where = f"{first['context']}, line {first['line']}, character {first['character']}:"
    text = printable(first["text"])
    assert f"\n{QUESTION}\n  {text}  ({first['probability']:.1%})\n    {where}\n" in shown
    # Marked on each of the lines that it takes.
    shown = " ".join(shown.split()).replace("] [", " ")
    assert f"[{' '.join(text.split())}]" in shown


def test_a_text_by_pipe_and_several_questions(asked, exported, texts):
    arguments = [exported, "-", "--json", "--question", QUESTION, "--question", "Where?"]
    found = rows(asked(*arguments, standard_input=texts[0].read_bytes()))
    assert [row["question"] for row in found] == [QUESTION, "Where?"]
    assert {answer["context"] for row in found for answer in row["answers"]} == {"standard input"}


def test_questions_by_pipe(asked, exported):
    arguments = [exported, "--context", "One word.", "--context", "Another one.", "--json"]
    found = rows(asked(*arguments, "--n_best=9", standard_input=f"{QUESTION}\n\nWhere?\n"))
    assert [row["question"] for row in found] == [QUESTION, "Where?"]
    assert {answer["context"] for row in found for answer in row["answers"]} == {"text 1", "text 2"}
    with pytest.raises(UserError, match="what is typed is not UTF-8"):
        asked(*arguments, standard_input=b"caf\xe9?\n")


def test_a_long_passage_is_wrapped(asked, exported, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    text = "Some words of a text " * 30
    lines = asked(exported, "--context", text, "--question", QUESTION).splitlines()
    assert len(lines) > 6 and all(len(line) <= 62 for line in lines)
    assert lines[3].startswith("    text 1, line 1, character ")


def test_what_would_act_on_a_terminal_is_not_printed(asked, exported):
    text = "a word \033[2J of a text"
    shown = asked(exported, "--context", text, "--question", "What\a?", "--n_best=9")
    assert "\033" not in shown and "\a" not in shown and "What??" in shown


def test_another_script_works_with_a_note(exported, capsys):
    arguments = ["--context", "Это текст на другом языке.", "--question", "什么？"]
    ask.main(ask.parse(["ask.py", str(exported), *arguments]))
    output, notes = capsys.readouterr()
    assert "什么？" in output
    assert "of the text are pieces that the model does not know" in notes
    assert "of the question are pieces" in notes


def test_abstention(asked, random_model):
    arguments = ["--context", "A text of words.", "--question", QUESTION]
    lengths = {"doc_stride": 16, "max_query_length": 20, "n_best_size": 5, "max_answer_length": 9}
    # As many as tokens, so that random weights have an answer too.
    tops = {"start_n_top": 40, "end_n_top": 40}
    for threshold, abstains in ((-1e9, True), (1e9, False)):
        described = {**lengths, **tops, "no_answer_threshold": threshold}
        model = random_model(make_v2_head(V2Options()), task="squad-2.0", **described)
        (found,) = rows(asked(model, *arguments, "--json"))
        assert found["abstains"] == abstains and (found["answer"] == "") == abstains
        assert 0 < found["no_answer_probability"] < 1
        says = "no answer" if abstains else "there is an answer"
        assert f"  {says} (probability of none: " in asked(model, *arguments)


def test_labels(asked, sentences):
    (found,) = rows(asked(sentences, "A text.", "Another one.", "--json"))
    assert found["texts"] == ["A text.", "Another one."]
    assert found["label"] == max(found["probabilities"], key=found["probabilities"].get)
    assert sum(found["probabilities"].values()) == pytest.approx(1)
    (likeliest, other) = asked(sentences, "A text.", "Another one.").splitlines()
    share = found["probabilities"][found["label"]]
    assert likeliest == f"{found['label']}  ({share:.1%})" and other != likeliest
    typed = asked(sentences, "--json", standard_input="A text. ||| Another one.\nA text.\n")
    assert [row["texts"] for row in rows(typed)] == [["A text.", "Another one."], ["A text."]]
    assert rows(typed)[0] == found
    with pytest.raises(UserError, match=r"pairs of texts are needed, such as \('A text.', ''\)"):
        load_once(sentences).classify_all(["A text."])


def test_a_number(asked, random_model):
    model = random_model(make_head(1, 0.0), task="glue", labels=[None], limits=[7.0, 9.0])
    assert asked(model, "A text.") == "7\n"


def test_an_option(asked, random_model):
    model = random_model(make_race_head(0.0, 4), task="race", labels=list("ABCD"), max_qa_length=16)
    options = [part for word in ("one", "two", "red", "blue") for part in ("--option", word)]
    arguments = [model, "--context", "A passage.", "--question", "It is _ .", *options]
    (found,) = rows(asked(*arguments, "--json"))
    assert list(found["probabilities"]) == list("ABCD")
    assert np.argmax(list(found["probabilities"].values())) == "ABCD".index(found["label"])
    with pytest.raises(FlagError, match="chooses one of 4 options: give one text"):
        asked(*arguments[:-2])
    for given, called in (("abcd", "one text"), (["a"] * 5, "5")):
        with pytest.raises(UserError, match=f"a list of 4 options is needed, not {called}"):
            load_once(model).choose("A passage.", "It is _ .", given)


@pytest.mark.parametrize(
    ("arguments", "error", "part"),
    [
        (["--question", "Who?"], FlagError, "answers from a text: give --context_file FILE"),
        (["--context", "a", "--question", " "], FlagError, "--question is empty"),
        (["--context", " \n", "--question", "Who?"], UserError, "--context has no text"),
        (["--context_file", "none.txt"], UserError, "none.txt cannot be read: No such file"),
        (["--context_file", "."], UserError, ". cannot be read: Is a directory"),
        (["-", "--context_file", "-"], FlagError, "the standard input can be read once only"),
        (["-"], UserError, "standard input has no text"),
        (["A text."], FlagError, "answers from a text"),
        (["A text.", "--context", "a"], FlagError, "answers questions on texts: give texts by"),
        (["--context", "a", "--option", "b"], FlagError, "give no --option"),
        (["--context", "a", "--n_best=0"], FlagError, "--n_best must be positive"),
        (["--question", "caf\udce9?"], FlagError, "'caf\\udce9?' is not UTF-8 text"),
        (["--contexts", "a"], FlagError, "unrecognized arguments: --contexts a; see --help"),
    ],
)
def test_errors(asked, exported, arguments, error, part):
    with pytest.raises(error) as caught:
        asked(exported, *arguments)
    assert part in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value.exit_code == (2 if error is FlagError else 1)


def test_no_utf8(asked, exported, tmp_path):
    (tmp_path / "text").write_bytes(b"caf\xe9")
    with pytest.raises(UserError, match="is not UTF-8 text: byte 3"):
        asked(exported, "--context_file", tmp_path / "text")


def test_the_text_leaves_no_room_for_typed_questions(asked, exported):
    with pytest.raises(FlagError, match="give --question: the standard input is the text"):
        asked(exported, "-", standard_input="A text.")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["a", "b", "c"], "labels a text or a pair of texts; 3 are given"),
        (["a", "--question", "Who?"], "labels texts, and answers no --question"),
        ([" "], "the text is empty"),
    ],
)
def test_errors_of_labelling(asked, sentences, arguments, part):
    with pytest.raises(FlagError, match=part):
        asked(sentences, *arguments)


class TestCommand:
    """As people call it."""

    def test_help(self):
        result = run([sys.executable, str(ROOT / "ask.py"), "--help"])
        assert result.returncode == 0 and "python ask.py MODEL --context_file" in result.stdout

    def test_errors_are_one_line(self, tmp_path):
        for arguments, code in (([], 2), ([str(tmp_path), "--context=a"], 1)):
            result = run([sys.executable, str(ROOT / "ask.py"), *arguments])
            assert result.returncode == code
            (line,) = result.stderr.splitlines()
            assert line.startswith("ask.py: error: ")
        assert (
            "the following arguments are required: MODEL; see"
            in run([sys.executable, str(ROOT / "ask.py")]).stderr
        )

    def test_ctrl_c_at_the_prompt(self, exported):
        ours, theirs = pty.openpty()
        command = [sys.executable, ROOT / "ask.py", exported, "--context", "A word."]
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
            shown = b""
            while not shown.endswith(b"question> "):
                shown += os.read(ours, 1000)
            process.send_signal(signal.SIGINT)
            assert process.wait(LONGEST) == 130
        assert os.read(ours, 1000) == b"\r\nask.py: stopped by SIGINT\r\n"

    def test_an_answer_that_nobody_can_read_is_no_success(self, exported):
        """Where standard output is closed, is a pipe without a reader, or a full disk."""
        command = f'"$0" {ROOT}/ask.py {exported} --context "A word." --question "What?"'
        for output in (">&-", "> >(exec true)", "> /dev/full"):
            result = run(["bash", "-c", f"{command} {output}", sys.executable])
            assert result.returncode == 1
            assert len(result.stderr.splitlines()) == (0 if "true" in output else 1), result.stderr
