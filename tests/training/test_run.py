"""The steps of a run: where training resumes, and which run may use the folder."""

import contextlib
import os
import signal
import types
from collections.abc import Callable

import pytest

from albert.core import locks, signals
from albert.core.errors import FlagError
from albert.modeling import AlbertConfig
from albert.records import DEV, TRAIN
from albert.records.batches import Data
from albert.settings.run_settings import KeptCheckpoints, RunSettings
from albert.training import job, metrics, trainer
from albert.training import run as training_run
from albert.training.plan import Steps, checkpoints_to_keep
from albert.training.prepared import PreparedRun, take_folder
from albert.training.task import Task
from albert.training.trainer import CheckpointScorer
from tests.helpers.files import settings_of

DATA = Data(["records"], {}, num_examples=8, num_records=8)


class SomeSettings(KeptCheckpoints, RunSettings):
    pass


def always(value: object) -> Callable[..., object]:
    return lambda self, *args: value


class NoTask(Task):
    outputs, best_by, splits, steps = ("answers.txt",), "f1", [TRAIN], always(Steps(8, 0))
    input_flags, split, model_inputs, head, score = map(always, ({}, None, {}, None, None))

    def __init__(self, settings):
        self.settings, self.config = settings, AlbertConfig(8)


@pytest.fixture
def begin(tmp_path):
    def begin(*flags: str) -> PreparedRun:
        task = NoTask(settings_of(SomeSettings, f"--output_dir={tmp_path}", *flags))
        return PreparedRun(task, {TRAIN: DATA, DEV: DATA}, {DEV: {}})

    return begin


@pytest.mark.parametrize("overwrites", [True, False])
def test_a_stopped_run_says_what_resumes_it(overwrites, tmp_path, monkeypatch):
    """Repeating a command that overwrites would lose what it has trained."""
    monkeypatch.setattr(signals._state, "resumes", True)
    flags = f"--overwrite_output_dir={overwrites}", f"--output_dir={tmp_path}"
    job.begin_job(settings_of(SomeSettings, *flags))
    changed = " without --overwrite_output_dir" * overwrites
    message = str(signals.Stopped(signal.SIGTERM))
    assert message == f"stopped by SIGTERM; the same command{changed} resumes"


@pytest.mark.parametrize("split", [TRAIN, DEV])
def test_a_loss_that_does_not_fall_is_a_warning(begin, tmp_path, monkeypatch, log, split):
    monkeypatch.setattr(training_run, "train_run", lambda *args, **kwargs: None)
    monkeypatch.setattr(CheckpointScorer, "score", always(None))
    for step in range(1, 202, 20):
        metrics.append(str(tmp_path), metrics.TRAINING, step, {"loss": 0.69})
    training_run.finish(PreparedRun(begin().task, {split: DATA}, {split: {}}))
    warnings = [line for line in log() if line.startswith("The model has not learned its task")]
    assert len(warnings) == (split == TRAIN)


def test_a_resumed_run_ends_before_a_step_if_no_score_is_better(begin, monkeypatch, log):
    """It scores first what a killed one has left without scores."""
    run = begin("--patience=2")
    scorer, evaluation = CheckpointScorer(run), types.SimpleNamespace(since_best=lambda: 1)
    monkeypatch.setattr(CheckpointScorer, "_score_new", always(evaluation))
    monkeypatch.setattr(trainer, "_begin", lambda *args: (0, True))
    monkeypatch.setattr(trainer, "train", None)
    assert not scorer.ends_training()
    evaluation.since_best = lambda: 2
    log()
    trainer.train_run(run, scorer)
    assert log()[-1] == "No better score in 2 checkpoints: stopping the training"


def test_a_run_locks_and_cleans_its_folder(begin, tmp_path):
    for name in (".answers.txt.abcdefgh", ".notes.txt.abcdefgh"):
        (tmp_path / name).touch()
    take_folder(begin().task)
    assert set(os.listdir(tmp_path)) == {".notes.txt.abcdefgh", "run.lock"}
    locks.release_held()
    assert os.listdir(tmp_path) == [".notes.txt.abcdefgh"]


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
