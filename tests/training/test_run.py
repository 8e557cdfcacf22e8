"""The steps of a run: where training resumes, and which run may use the folder."""

import contextlib
import os
import signal
import types
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.checkpoints.model_folder import Assets
from albert.core import locks, signals
from albert.core.errors import FlagError
from albert.data import DEV, TRAIN
from albert.data.batches import Data
from albert.settings.run_settings import KeptCheckpoints, RunSettings
from albert.training import job, trainer
from albert.training.plan import checkpoints_to_keep
from albert.training.prediction import make_predictor
from albert.training.prepared import PreparedRun, prepare, take_folder
from albert.training.task import Task
from albert.training.trainer import Scorer, train_run
from tests.helpers.files import settings_of

DATA = Data(["records"], {}, num_examples=8, num_records=8)


class SomeSettings(KeptCheckpoints, RunSettings):
    pass


def always(value: object) -> Callable[..., object]:
    return lambda self, *args: value


class NoTask(Task):
    outputs, config, best_by = ("answers.txt",), None, "f1"
    requested_splits, prepared = always([TRAIN]), always(DATA)
    contents, model = always({"train_file": "abc"}), always({})
    model_fn = always(lambda features, labels, mode, params: None)
    input_flags, model_inputs, head, score = map(always, ({}, {}, None, None))
    assets = always(Assets({}, {}))

    def __init__(self, settings):
        self.settings = settings

    def split(self, name):
        return self

    def steps(self, num_examples):
        return num_examples, 0


@pytest.fixture
def begin(tmp_path):
    def begin(*flags: str) -> PreparedRun:
        task = NoTask(settings_of(SomeSettings, f"--output_dir={tmp_path}", *flags))
        return PreparedRun(task, {TRAIN: DATA, DEV: DATA}, {DEV: {}})

    return begin


def test_a_run_resumes_after_the_batches_it_has_seen(begin, monkeypatch):
    starts = []
    monkeypatch.setattr(trainer, "point_to_newest", lambda folder: 5)
    monkeypatch.setattr(trainer, "train", lambda *args: None)
    monkeypatch.setattr(Data, "input_fn", lambda self, *args: starts.append(args[2:]))
    train_run(begin("--gradient_accumulation_steps=3"))
    assert starts == [(15, None)]


@pytest.mark.parametrize("overwrites", [True, False])
def test_a_stopped_run_says_what_resumes_it(overwrites, tmp_path, monkeypatch):
    """Repeating a command that overwrites would lose what it has trained."""
    monkeypatch.setattr(signals._state, "resumes", True)
    flags = f"--overwrite_output_dir={overwrites}", f"--output_dir={tmp_path}"
    job.begin_job(settings_of(SomeSettings, *flags))
    changed = " without --overwrite_output_dir" * overwrites
    message = str(signals.Stopped(signal.SIGTERM))
    assert message == f"stopped by SIGTERM; the same command{changed} resumes"


def test_a_run_locks_and_cleans_its_folder(begin, tmp_path):
    for name in (".answers.txt.abcdefgh", ".notes.txt.abcdefgh"):
        (tmp_path / name).touch()
    (tmp_path / "model.ckpt-3_temp").mkdir()
    take_folder(begin().task)
    assert set(os.listdir(tmp_path)) == {".notes.txt.abcdefgh", "run.lock"}
    locks.release_held()
    assert os.listdir(tmp_path) == [".notes.txt.abcdefgh"]


def test_a_split_only_scored_is_read_once_and_not_recorded(begin, monkeypatch):
    """It may be large, and is scored in the middle of a training."""
    read = []
    monkeypatch.setattr(NoTask, "contents", lambda self, split: read.append(split) or {})
    monkeypatch.setattr(NoTask, "requested_splits", lambda self: [DEV])
    run = prepare(begin().task)
    assert not tf.get_default_graph().get_operations(), "the workers are not connected yet"
    assert "learning_rate" not in run.facts and run.facts["predict_batch_size"] == 8
    for _ in range(2):
        Scorer(run)._evaluation()
    assert read == [DEV]


@pytest.mark.parametrize("by_length", [True, False])
def test_prediction_is_by_length_unless_it_is_timed(begin, monkeypatch, by_length):
    read, backwards = [], np.arange(8)[::-1]
    monkeypatch.setattr(Data, "order", lambda self: backwards)
    monkeypatch.setattr(Data, "input_fn", lambda self, size, order: read.append(order))
    make_predictor(begin().task, DATA, by_length)
    np.testing.assert_equal(read, [backwards if by_length else None])


def test_old_checkpoints_are_removed_when_not_needed(begin):
    settings = begin("--keep_checkpoint_max=3").task.settings
    for do_eval, kept in ((True, 0), (False, 3)):
        assert checkpoints_to_keep(settings.replaced(do_eval=do_eval)) == kept


@pytest.mark.parametrize(
    ("kind", "wire", "shard", "fault"),
    [
        *(("cpu", "float16", "state", None), ("cpu", "bfloat16", "none", "works on the HPU only")),
        *(("hpu", "bfloat16", "gradients", None), ("hpu", "float32", "state", None)),
        ("hpu", "float16", "none", None),
        ("hpu", "float16", "state", "reduce-scatter of habana-horovod has no float16"),
    ],
)
def test_types_that_horovod_cannot_send_are_refused(on_device, kind, wire, shard, fault):
    on_device(kind)
    settings = types.SimpleNamespace(allreduce_dtype=wire, shard_optimizer=shard, use_horovod=True)
    with pytest.raises(FlagError, match=fault) if fault else contextlib.nullcontext():
        job._check_workers(settings)
