"""What check_setup.py says of the data of a pretraining."""

from __future__ import annotations

import types

import pytest

from pretraining import setup
from runtime.preflight.report import Report


@pytest.mark.parametrize(
    ("train", "evaluate", "eval_file", "looked_at"),
    [
        (True, True, None, [["train"]]),
        (True, True, "dev", [["train"], ["dev"]]),
        (False, True, None, [["train"]]),
        (True, False, None, [["train"]]),
    ],
)
def test_no_file_is_read_twice(monkeypatch, train, evaluate, eval_file, looked_at):
    """It takes minutes for large ones."""
    found = []
    flags = types.SimpleNamespace(do_train=train, do_eval=evaluate, eval_file=eval_file)
    replacements = {
        "FLAGS": flags,
        "check_files": lambda files, options: found.append(files),
        "training_files": lambda: ["train"],
        "evaluation_files": lambda: [eval_file or "train"],
        "RecordFile": lambda files: range(8),
        "num_train_steps": lambda: 2,
        "global_batch_size": lambda: 4,
    }
    for name, value in replacements.items():
        monkeypatch.setattr(setup, name, value)
    job = object.__new__(setup.PretrainingJob)
    job._options = None
    report = Report()
    job.describe_data(report)
    assert found == looked_at
