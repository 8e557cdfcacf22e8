"""The estimated duration of a job from measurements: sums worked out by hand."""

import types

from albert.distributed import exchange
from albert.preflight import duration
from albert.preflight.duration import BatchTime, describe_duration
from albert.preflight.report import Report
from albert.records import DEV, TEST, TRAIN
from albert.records.batches import Data
from albert.training.plan import Steps
from tests.helpers.checkpoints import write_checkpoint
from tests.helpers.running import simulated_workers

SETTINGS = {"train_batch_size": 4, "gradient_accumulation_steps": 3, "predict_batch_size": 10}
SETTINGS |= {"save_checkpoints_steps": 20, "output_dir": "none"}
PACES = {TRAIN: BatchTime(9.0, 0.5), DEV: BatchTime(2.0, 1.0), TEST: BatchTime(2.0, 1.0)}
DATA = {DEV: Data([], {}, 100, 95), TEST: Data([], {}, 100, 11)}


def test_the_pace_excludes_the_first_batch():
    pace = BatchTime.of([10.0, 2.0, 3.0])
    assert pace == (10.0, 2.5)
    assert (pace.seconds(1), pace.seconds(5)) == (10.0, 20.0)
    assert BatchTime.of([7.0]).seconds(3) == 21.0, "alone it stands for all"


def rows(steps: int, workers=1, paces=PACES, **settings) -> dict[str, str]:
    settings, report = types.SimpleNamespace(**SETTINGS | settings), Report()
    with simulated_workers(workers):
        describe_duration(report, settings, Steps(steps, 0) if steps else None, DATA, paces)
    assert all(row.section == "duration" and row.ok for row in report.rows), report.rows
    return {row.item: row.value for row in report.rows}


def test_one_worker_trains_scores_and_labels():
    """150 micro-batches, 3 times 10 batches, and 2 batches."""
    assert rows(steps=50) == {
        "training": "1 min 24 s: 50 steps of 12 examples, 8.00 per second",
        "scoring": "33.0 s: 3 x 95 features, 10.00 per second",
        "labeling": "3.0 s: 1 x 11 features, 10.00 per second",
        "whole job": "2 min 00 s from the start, on hosts like this one",
    }


def test_workers_stop_measuring_together(monkeypatch):
    """Rank 0 decides, however long a step takes here."""
    monkeypatch.setattr(exchange, "broadcast_object", lambda value: False)
    watch, stopped = duration._StopWatch(), []
    context = types.SimpleNamespace(request_stop=lambda: stopped.append(True))
    for _ in range(5):
        watch.before_run(context)
        watch.after_run(context, None)
    assert stopped == []


def test_two_measured_workers_halve_the_steps():
    """25 steps of 3 micro-batches each; 5 batches, 2 times; 1 batch."""
    training, scoring, labeling, whole_job = rows(steps=25, workers=2).values()
    assert training.startswith("46.0 s: 25 steps of 24 examples, 16.00 per second")
    assert scoring.startswith("12.0 s: 2 x 95 features, 20.00 per second")
    assert labeling.startswith("2.0 s: 1 x 11") and whole_job.startswith("1 min 00 s from")


def test_without_training_only_scoring_is_estimated(tmp_path):
    """The initial checkpoint is scored if there is no other; otherwise all are."""
    actual = rows(steps=0, paces={DEV: PACES[DEV]})
    assert actual["scoring"].startswith("11.0 s: 1 x 95 features")
    assert actual.keys() == {"scoring", "whole job"}
    for step in (1, 2, 3):
        write_checkpoint(tmp_path / f"model.ckpt-{step}", {"w": 0.0})
    actual = rows(steps=0, paces={DEV: PACES[DEV]}, output_dir=str(tmp_path))
    assert actual["scoring"].startswith("33.0 s: 3 x 95 features")
