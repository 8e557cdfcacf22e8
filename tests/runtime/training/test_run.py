"""The steps of a run: where a training goes on, and who may use its folder."""

from __future__ import annotations

import json
import os

import pytest

from runtime import locks
from runtime.flags import define_run_flags
from runtime.training import run
from runtime.training.run import Run


@pytest.fixture
def begin(set_flags, tmp_path):
    """Makes a run in a folder, with flags."""

    def begin(*flags: str, outputs: tuple[str, ...] = ()) -> Run:
        set_flags([define_run_flags], f"--output_dir={tmp_path}", *flags)
        return Run(lambda *steps: lambda features, labels, mode, params: None, outputs)

    yield begin
    locks.release_held()


@pytest.mark.parametrize("accumulated", [1, 2, 3])
def test_resumes_behind_the_batches_that_are_done(begin, monkeypatch, accumulated):
    """A step takes as many batches as are accumulated."""
    done, starts = 5, []
    monkeypatch.setattr(run, "point_to_newest", lambda folder: done)
    monkeypatch.setattr(run, "train", lambda *args: None)
    begun = begin(f"--gradient_accumulation_steps={accumulated}")
    begun.check({})
    begun.train(starts.append, num_steps=8, num_warmup_steps=0)
    assert starts == [done * accumulated]


def test_the_folder_is_its_own(begin, tmp_path):
    begin()
    assert os.listdir(tmp_path) == ["run.lock"]
    locks.release_held()
    assert os.listdir(tmp_path) == []


def test_the_record_lists_what_the_task_writes(begin, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "train", lambda *args: None)
    begun = begin(outputs=("answers.txt",))
    begun.check({"a": 1})
    begun.train(lambda start_batch: None, num_steps=8, num_warmup_steps=0)
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["settings"] == {"a": 1}
    assert {"answers.txt", "model.ckpt-*", "eval_results.json"} <= set(record["outputs"])


def test_the_litter_of_killed_runs_goes(begin, tmp_path):
    for name in (".answers.txt.abcdefgh", ".notes.txt.abcdefgh", "model.ckpt-3_temp"):
        (tmp_path / name).mkdir() if name.endswith("_temp") else (tmp_path / name).touch()
    begin(outputs=("answers.txt",))
    assert set(os.listdir(tmp_path)) == {".notes.txt.abcdefgh", "run.lock"}
