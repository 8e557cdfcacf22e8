"""The steps of a run: where a training goes on, and who may use its folder."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from runtime import locks
from runtime.data.batches import Data
from runtime.errors import FlagError
from runtime.flags import Settings
from runtime.training import run
from runtime.training.run import Run
from runtime.training.run_flags import (
    define_ignored_flags,
    define_keep_checkpoint_max,
    define_run_flags,
    define_scoring_while_training,
)
from runtime.training.task import DEV, TRAIN, Task

DATA = Data(["records"], {}, num_examples=8, num_records=8)


def flags_of_task() -> None:
    """Defines what runs ask for."""
    define_keep_checkpoint_max()
    define_scoring_while_training()


class NoTask(Task):
    """A task of which only the outside is looked at."""

    outputs = ("answers.txt",)

    def wanted(self):
        return [TRAIN]

    def part(self, name):
        return self

    def prepared(self):
        return DATA

    def contents(self, part):
        return {"train_file": "abc"}

    def steps(self, num_examples):
        return num_examples, 0

    def model_fn(self, steps):
        return lambda features, labels, mode, params: None

    def model_inputs(self):
        return {}

    def compare(self, variables):
        return None

    def score_key(self, data):
        return "f1"

    def score(self, data, outputs):
        return None


@pytest.fixture
def begin(set_flags, tmp_path):
    """Makes a run in a folder, with flags."""

    def begin(*flags: str) -> Run:
        definers = [define_run_flags, flags_of_task, define_ignored_flags]
        set_flags(definers, f"--output_dir={tmp_path}", *flags)
        return Run(NoTask(Settings()))

    yield begin
    locks.release_held()


@pytest.mark.parametrize("accumulated", [1, 2, 3])
def test_resumes_behind_the_batches_that_are_done(begin, monkeypatch, accumulated):
    """A step takes as many batches as are accumulated."""
    done, starts = 5, []
    monkeypatch.setattr(run, "point_to_newest", lambda folder: done)
    monkeypatch.setattr(run, "train", lambda *args: None)
    monkeypatch.setattr(
        Data, "input_fn", lambda self, size, seed, start, order: starts.append((start, order))
    )
    begun = begin(f"--gradient_accumulation_steps={accumulated}")
    begun.train(begun.prepare(TRAIN), None)
    assert starts == [(done * accumulated, None)]


def test_the_folder_is_its_own(begin, tmp_path):
    begin()
    assert os.listdir(tmp_path) == ["run.lock"]
    locks.release_held()
    assert os.listdir(tmp_path) == []


def test_the_record_tells_settings_and_what_the_task_writes(begin, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "train", lambda *args: None)
    begun = begin("--learning_rate=0.5")
    begun.train(begun.prepare(TRAIN), None)
    record = json.loads((tmp_path / "run.json").read_text())
    expected = {"learning_rate": 0.5, "train_file": "abc", "number of workers": 1}
    assert record["settings"].items() >= expected.items()
    assert "log_steps" not in record["settings"] and "output_dir" not in record["settings"]
    assert {"answers.txt", "model.ckpt-*", "eval_results.json"} <= set(record["outputs"])


def test_the_litter_of_killed_runs_goes(begin, tmp_path):
    for name in (".answers.txt.abcdefgh", ".notes.txt.abcdefgh", "model.ckpt-3_temp"):
        (tmp_path / name).mkdir() if name.endswith("_temp") else (tmp_path / name).touch()
    begin()
    assert set(os.listdir(tmp_path)) == {".notes.txt.abcdefgh", "run.lock"}


def test_the_input_is_read_once_however_often_it_is_scored(begin, monkeypatch):
    """It may be large, and is scored in the middle of a training."""
    read = []
    monkeypatch.setattr(NoTask, "contents", lambda self, part: read.append(part) or {})
    begun = begin()
    begun.prepare(DEV)
    for _ in range(2):
        begun._evaluation(DATA)
    assert read == [DEV]


@pytest.mark.parametrize("by_length", [True, False])
def test_prediction_is_by_length_unless_its_time_is_estimated(begin, monkeypatch, by_length):
    read = []
    monkeypatch.setattr(Data, "order", lambda self: np.arange(8)[::-1])
    monkeypatch.setattr(Data, "input_fn", lambda self, size, order: read.append(order))
    predictor = begin().predictor(DATA, by_length)
    (order,) = read
    if by_length:
        assert order.tolist() == predictor._places.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    else:
        assert order is None and predictor._places is None


@pytest.mark.parametrize("flag", ["--evaluate_while_training", "--patience=2"])
def test_scoring_while_training_needs_what_is_scored(begin, tmp_path, flag, set_flags):
    definers = [define_run_flags, flags_of_task, define_ignored_flags]
    set_flags(definers, f"--output_dir={tmp_path}", "--device=cpu", flag)
    with pytest.raises(FlagError, match="--evaluate_while_training and --patience need data"):
        run.run(NoTask)


@pytest.mark.parametrize(
    ("do_eval", "kept"),
    [(True, 0), (False, 3)],
    ids=["all are scored first", "as training goes on"],
)
def test_old_checkpoints_go_when_nobody_needs_them(begin, do_eval, kept):
    settings = begin("--keep_checkpoint_max=3", "--save_checkpoints_minutes=7").task.settings
    settings.do_eval = do_eval
    plan = run.training_plan(settings, 100)
    assert plan.keep_checkpoints == kept
    assert plan.save_checkpoints_minutes == 7


class TestPatience:
    """How many checkpoints without a better score end a training."""

    @pytest.fixture
    def asked(self, begin, monkeypatch):
        """Whether the training is to end after checkpoints with these scores."""

        def asked(patience: int, *scores: float) -> bool:
            begun = begin(f"--patience={patience}")
            evaluation = object.__new__(run.Evaluation)
            evaluation._key = "f1"
            evaluation._history = [{"f1": score} for score in scores]
            monkeypatch.setattr(Run, "_score_new", lambda self, data, predictor: evaluation)
            return begun._score_and_ask(DATA, None)

        return asked

    @pytest.mark.parametrize(
        ("scores", "ends"),
        [([1.0], False), ([2.0, 1.0], False), ([2.0, 1.0, 2.0], True), ([1.0, 1.5, 2.0], False)],
    )
    def test_of_two(self, asked, scores, ends):
        """An equal score is no better one."""
        assert asked(2, *scores) == ends

    def test_of_none(self, asked):
        assert not asked(0, 3.0, 2.0, 1.0, 0.0)


def test_dev_is_no_training(begin):
    """What is only scored leaves no record of settings of weights."""
    begun = begin()
    begun.prepare(DEV)
    assert "learning_rate" not in begun.facts and begun.facts["predict_batch_size"] == 8


def test_graphs_are_not_built_before_the_workers_are_connected(begin):
    begun = begin()
    begun.prepare(TRAIN)
    assert not tf.get_default_graph().get_operations()
