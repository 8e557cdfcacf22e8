"""A task that only a test defines gets what the others have, from its entry in the table of tasks.

It is in `tests/programs/rating.py`.
"""

from __future__ import annotations

import inspect
import json
import pathlib
import random
from collections.abc import Iterator

import numpy as np
import pytest

import albert as package
from albert.inference import load_model
from albert.records import DEV, TRAIN
from albert.report.predictions import read_samples
from albert.serving.services import service_of
from albert.tasks import TASKS
from albert.tasks.classification.base import LabelTask
from albert.training.task import Task
from tests.helpers.files import settings_of
from tests.helpers.forking import ROOT
from tests.helpers.running import run_text
from tests.helpers.serving import Served
from tests.programs.rating import ENTRY, Pair, RatingSettings, RatingTask

# The command `albert` of a process that knows the task.
PROGRAM = f"""
from albert.tasks import TASKS, Entry
TASKS.append(Entry(*{tuple(ENTRY)!r}))
from albert.cli.main import main
main()
"""


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """Makes the task known in this process."""
    TASKS.append(ENTRY)
    yield
    TASKS.remove(ENTRY)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    """Writes pairs of texts whose rating is the share of equal words."""
    folder, rng = tmp_path_factory.mktemp("rating"), random.Random(1)
    for name, count in (("train", 24), ("dev", 10)):
        rows = []
        for _ in range(count):
            first, second = (rng.choices("nrlscm", k=4) for _ in range(2))
            rating = sum(map(str.__eq__, first, second)) / 4
            row = {"first": " ".join(first), "second": " ".join(second), "rating": rating}
            rows.append(json.dumps(row))
        (folder / f"{name}.jsonl").write_text("\n".join(rows))
    return folder


@pytest.fixture(scope="module")
def flags(folder, squad_dir) -> list[str]:
    """Returns the flags of a run, without its folder."""
    model = f"--albert_config_file={squad_dir}/albert.json"
    data = f"--train_file={folder}/train.jsonl", f"--predict_file={folder}/dev.jsonl"
    own = "--max_seq_length=32", "--train_batch_size=8", "--from_scratch", "--scale=5"
    return [*data, model, f"--spm_model_file={squad_dir}/spm.model", *own]


def texts_in(folder: pathlib.Path) -> list[tuple[str, str]]:
    rows = map(json.loads, (folder / "dev.jsonl").read_text().splitlines())
    return [(row["first"], row["second"]) for row in rows]


def test_the_task_says_five_things_in_few_lines():
    assert len(Task.__abstractmethods__) <= 5 and len(LabelTask.__abstractmethods__) <= 5
    public = [name for name, value in inspect.getmembers(Task, callable) if name[0] != "_"]
    assert len(public) <= 15, "what a task must give, and what it may change"
    methods = {name for name, value in vars(RatingTask).items() if callable(value)}
    assert methods == LabelTask.__abstractmethods__
    assert len((ROOT / "tests/programs/rating.py").read_text().splitlines()) <= 120


def test_its_settings_shape_its_features(flags, folder, tmp_path):
    task = RatingTask(settings_of(RatingSettings, *flags, f"--output_dir={tmp_path}"))
    assert task.read(DEV)[0] == Pair("line 1", texts_in(folder)[0], task.read(DEV)[0].rating)
    assert max(pair.rating for pair in task.read(TRAIN)) > 1
    made_from = task.split(TRAIN).cached.made_from
    assert made_from.items() >= {"scale": 5, "max_seq_length": 32}.items()
    assert not made_from.keys() & {"learning_rate", "train_file"}


@pytest.mark.slow
def test_an_export_ask_and_the_server_rate_as_the_run_did(flags, folder):
    steps = "--train_steps=5", "--save_checkpoints_steps=2", "--learning_rate=1e-3"
    done, out = folder / "out", (f"--output_dir={folder}/out", f"--export_dir={folder}/export")
    result = run_text(folder, PROGRAM, "rate", *flags, *steps, *out)
    assert result.returncode == 0, result.stderr
    samples = list(read_samples(str(done)))
    assert '"title":"Ratings"' in (done / "predictions.html").read_text()
    rated = package.load(folder / "export").classify_all(texts_in(folder))
    answers = [sample["answer"] for sample in samples]
    assert [one.number for one in rated] == pytest.approx(answers, abs=1e-3)
    assert np.std(answers) > 0
    first, second = texts_in(folder)[0]
    row = json.loads(run_text(folder, PROGRAM, "ask", str(done), first, second, "--json").stdout)
    served = Served(service_of(load_model(str(done))))
    try:
        answer = served.post({"text": first, "second_text": second}).json()
    finally:
        served.stop()
    assert row["number"] == answer["number"] == pytest.approx(answers[0], abs=1e-3)


def test_its_command_is_listed_explained_and_checked(flags, tmp_path):
    assert f"  rate              {ENTRY.summary}\n" in run_text(tmp_path, PROGRAM, "--help").stdout
    assert "\n  albert rate --train_file" in run_text(tmp_path, PROGRAM, "rate", "--help").stdout
    more = "--recipe=auto", f"--output_dir={tmp_path}/out"
    checked = run_text(tmp_path, PROGRAM, "check", "rate", *flags, *more)
    assert "100, 10 of them warmup, 8 examples each" in checked.stdout, "as the recipe says"
    assert checked.stdout.endswith("the job can run\n"), checked.stdout
