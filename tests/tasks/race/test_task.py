"""RACE under the flags."""

import pytest

from albert.core.errors import UserError
from albert.tasks.race.settings import RaceSettings
from albert.tasks.race.task import RaceTask
from albert.training.plan import Steps
from albert.training.prepared import prepare
from albert.training.task_model import assets_of
from tests.helpers.race import write_race


def test_flags_reach_the_task_and_its_description(make_task, tmp_path):
    def make(*flags: str) -> RaceTask:
        own = f"--data_dir={tmp_path}", "--max_seq_length=32", "--max_qa_length=8", "--do_train"
        return make_task(RaceTask, RaceSettings, *own, "--dropout_prob=0.25", *flags)

    assert make().dropout == 0.25
    assert make("--deterministic_run").dropout == 0.0
    # A flag overrides the default.
    steps = make("--warmup_proportion=0.5", "--train_steps=10").steps(num_examples=40)
    assert make().settings.warmup_step > 0 and steps == Steps(10, 5)
    described = assets_of(make()).description
    assert described["max_seq_length"] == 32 and described["max_qa_length"] == 8
    for flags, message in (
        ("--max_seq_length=11", r"_length 11 must be more than --max_qa_length 8 \+ 3"),
        ("--high_only --middle_only", "--high_only and --middle_only exclude each other"),
    ):
        with pytest.raises(UserError, match=message):
            make(*flags.split())
    with pytest.raises(UserError, match="RACE/train/middle has no .txt files of RACE"):
        make().split("train").prepared()


def test_examples_whose_passage_may_be_truncated_are_counted(make_task, tmp_path, caplog):
    write_race(tmp_path, ["n", "r"])
    out = f"--output_dir={tmp_path}/out"
    flags = out, f"--data_dir={tmp_path}", "--do_eval", "--max_qa_length=4"
    with caplog.at_level("INFO", "tensorflow"):
        prepare(make_task(RaceTask, RaceSettings, *flags, "--max_seq_length=12"))
    line = "dev: 100.0% of the texts have at least 12 tokens; longer ones are truncated, unless "
    assert f"{line}you raise --max_seq_length" in caplog.text
