"""The plan of a training, and resuming it with another number of workers."""

import json

import pytest

from albert.core.errors import FlagError
from albert.settings.run_settings import RunSettings
from albert.training.plan import (
    Steps,
    global_batch_size,
    original_batch_settings,
    rescale_to_current_workers,
    steps_with_warmup,
)
from tests.helpers.running import simulated_workers

BEGUN = {"number of workers": 4, "gradient_accumulation_steps": 3, "train_batch_size": 8}
BEGUN["optimizer"] = "adamw"


@pytest.fixture
def settings(tmp_path) -> RunSettings:
    """Returns flags of a folder with a run of 4 workers."""
    (tmp_path / "run.json").write_text(json.dumps({"version": 2, "settings": BEGUN}))
    flags = {"train_batch_size": 8, "gradient_accumulation_steps": 3, "learning_rate": 0.5}
    return RunSettings(**flags, elastic_resume=True, output_dir=str(tmp_path))


def test_epochs_count_batches_of_all_workers_and_a_scaled_rate_is_that_of_the_first(settings):
    """Four workers with three batches of 8 take 96 examples in each step."""
    settings = settings.replaced(num_train_epochs=2.5, train_steps=-1, warmup_proportion=0.25)
    with simulated_workers(4):
        assert global_batch_size(settings) == 96
        assert steps_with_warmup(settings, 1000, "train.json") == Steps(26, 6)
        assert steps_with_warmup(settings.replaced(train_steps=1), 1000, "") == Steps(1, 0)
    original = original_batch_settings(settings, by(2, optimizer="lamb"))
    assert original == {**BEGUN, "optimizer": "lamb"}
    with simulated_workers(2):
        actual = rescale_to_current_workers(settings.replaced(scale_learning_rate=True), BEGUN)
    assert actual.learning_rate * 2 == 0.5 * 4


def by(workers: int, **changed) -> dict:
    return {**BEGUN, "number of workers": workers, **changed}


@pytest.mark.parametrize(
    ("workers", "batch", "batches"), [(1, 8, 12), (2, 8, 6), (12, 8, 1), (24, 4, 1), (3, 16, 2)]
)
def test_a_step_is_split_for_other_workers(settings, workers, batch, batches):
    settings = settings.replaced(train_batch_size=batch)
    assert original_batch_settings(settings, by(workers, train_batch_size=batch)) == BEGUN
    with simulated_workers(workers):
        actual = rescale_to_current_workers(settings, BEGUN)
    assert actual.gradient_accumulation_steps == batches
    assert actual.learning_rate == 0.5


def test_workers_that_cannot_split_a_step_are_refused(settings):
    with pytest.raises(FlagError) as caught:
        original_batch_settings(settings, by(5))
    assert str(caught.value) == (
        f"--elastic_resume: the run in {settings.output_dir} has steps of 96 examples, which is no "
        "multiple of 40, --train_batch_size times the number of workers; change one of them"
    )


@pytest.mark.parametrize(
    "change", [{"elastic_resume": False}, {"overwrite_output_dir": True}, {"output_dir": "none"}]
)
def test_a_new_run_uses_the_flags_unchanged(settings, change):
    settings = settings.replaced(**change)
    assert original_batch_settings(settings, by(5)) == by(5)
    with simulated_workers(5):
        assert rescale_to_current_workers(settings, by(5)).gradient_accumulation_steps == 3
