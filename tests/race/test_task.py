"""RACE under the flags."""

from __future__ import annotations

import pytest

from race.flags import define_race_flags
from race.task import RaceTask
from runtime.flags import Settings
from runtime.training.run_flags import define_flags


@pytest.fixture
def make(set_flags, squad_dir, tmp_path):
    """Makes the task of some flags."""

    def make(*flags: str) -> RaceTask:
        set_flags(
            [lambda: define_flags(define_race_flags)],
            f"--data_dir={tmp_path}",
            f"--albert_config_file={squad_dir / 'albert.json'}",
            f"--spm_model_file={squad_dir / 'spm.model'}",
            f"--output_dir={tmp_path / 'out'}",
            "--max_seq_length=32",
            "--max_qa_length=8",
            "--do_train",
            *flags,
        )
        return RaceTask(Settings())

    return make


def test_flags_reach_the_task_and_its_description(make):
    assert make("--dropout_prob=0.25").dropout == 0.25
    assert make("--dropout_prob=0.25", "--deterministic_run").dropout == 0.0
    described = make().assets().description
    assert described["max_seq_length"] == 32 and described["max_qa_length"] == 8
