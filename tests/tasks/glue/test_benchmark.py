"""The preparation of several tasks; whole runs are in tests/test_run_classifier.py."""

import shutil

import pytest

from albert.core.errors import UserError
from albert.tasks.glue.benchmark import run_benchmark
from albert.tasks.glue.settings import GlueSettings
from tests.helpers.files import settings_of
from tests.helpers.glue import write_all
from tests.helpers.tiny_runs import MODEL


@pytest.fixture
def job(squad_dir, tmp_path, on_device):
    """Returns the settings of a job on all tasks, and writes their data."""
    # Undoes what a run changes in its process.
    on_device("cpu")
    write_all(tmp_path, ["n", "r"])
    flags = "--task_name=all", f"--data_dir={tmp_path}", f"--output_dir={tmp_path}/out"
    model = [flag.format(squad=squad_dir) for flag in MODEL]
    return lambda *more: settings_of(GlueSettings, *flags, *model, "--do_train", *more)


def test_downloading_ends_and_missing_files_are_reported_before_any_work(job, tmp_path, log):
    run_benchmark(job("--download_only", "--max_seq_length=32"))
    assert log()[-1] == "All files of the job exist: start it without --download_only"
    assert not (tmp_path / "out").exists()
    shutil.rmtree(tmp_path / "SST-2")
    for name in ("CoLA/dev", "RTE/train", "RTE/dev", "QNLI/test", "MNLI/dev_mismatched"):
        (tmp_path / f"{name}.tsv").unlink()
    with pytest.raises(UserError) as caught:
        run_benchmark(job("--do_eval"))
    assert str(caught.value) == (
        f"--data_dir {tmp_path} has no CoLA/dev.tsv, SST-2, MNLI/dev_mismatched.tsv, "
        "RTE/train.tsv, RTE/dev.tsv; download them with `albert download glue "
        f"--data_dir={tmp_path} --tasks=CoLA,SST-2,MNLI,RTE`"
    )
    assert not (tmp_path / "out").exists()
