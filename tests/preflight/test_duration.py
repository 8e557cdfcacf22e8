"""The estimated duration of a job from measurements: sums worked out by hand."""

import types

import pytest

from albert.core.errors import FlagError
from albert.data import DEV, TEST, TRAIN
from albert.data.batches import Data
from albert.distributed import collectives, exchange
from albert.preflight import duration
from albert.preflight.duration import BatchTime, Measurement, RemoteWorkers, describe_duration
from albert.preflight.report import Report
from albert.preflight.scaling import Link, scale, step_traffic
from tests.helpers.checkpoints import write_checkpoint

SETTINGS = {"train_batch_size": 4, "gradient_accumulation_steps": 3, "predict_batch_size": 10}
SETTINGS |= {"save_checkpoints_steps": 20, "output_dir": "none"}
SETTINGS |= {"allreduce_dtype": "float32", "shard_optimizer": "none"}


def test_the_pace_excludes_the_first_batch():
    pace = BatchTime.of([10.0, 2.0, 3.0])
    assert pace == (10.0, 2.5, 2)
    assert (pace.seconds(1), pace.seconds(5)) == (10.0, 20.0)
    assert BatchTime.of([7.0]) == (7.0, 7.0, 0), "alone it stands for all"
    assert BatchTime.of([7.0]).seconds(3) == 21.0


def part(num_records: int) -> Data:
    return Data([], {}, 100, num_records)


class StepsTask:
    """A task of one step for 12 examples of each worker."""

    def __init__(self, settings: types.SimpleNamespace):
        self.check(settings)
        self.settings = settings

    def check(self, settings: types.SimpleNamespace) -> None:
        """Accepts all settings."""

    def steps(self, num_examples: int) -> tuple[int, int]:
        return num_examples // (12 * collectives.size()), 0


def rows(measured: Measurement, on=None, workers=1, trains=True, **settings) -> dict[str, str]:
    """Returns the rows about a job of 50 steps of one worker; all workers train 600 examples."""
    with collectives.simulated_workers(workers):
        task = StepsTask(types.SimpleNamespace(**SETTINGS | settings))
        steps = task.steps(600) if trains else None
        checked = types.SimpleNamespace(
            task=task, trained=task, num_examples=600, steps=steps, num_weights=25_000_000
        )
        report = Report()
        describe_duration(report, checked, measured, on)
        assert all(row.section == "duration" and row.ok for row in report.rows), report.rows
        assert collectives.size() == workers
    return {row.item: row.value for row in report.rows}


MEASURED = Measurement(
    5.0,
    {TRAIN: part(0), DEV: part(95), TEST: part(11)},
    {TRAIN: BatchTime(9.0, 0.5, 2), DEV: BatchTime(2.0, 1.0, 2), TEST: BatchTime(2.0, 1.0, 1)},
)


def test_one_worker_trains_scores_and_labels():
    """150 micro-batches, 3 times 10 batches, and 2 batches."""
    assert rows(MEASURED) == {
        "features": "5.0 s, made once",
        "training": "1 min 24 s: 50 steps of 12 examples, 8.00 per second, measured over 2 batches "
        "after the first",
        "scoring": "33.0 s: 3 x 95 features, 10.00 per second, measured over 2 batches after "
        "the first",
        "labeling": "3.0 s: 1 x 11 features, 10.00 per second, measured over 1 batch after the "
        "first",
        "whole job": "2 min 04 s from the start, on hosts like this one",
    }


def test_predictions_are_timed_in_the_order_of_the_file(monkeypatch):
    """The longest records would not be representative."""
    requested = []

    def make_predictor(task, data, by_length):
        requested.append(by_length)
        return types.SimpleNamespace(batches=lambda checkpoint: [1, 2], close=lambda: None)

    monkeypatch.setattr(duration, "make_predictor", make_predictor)
    assert duration._prediction_pace(None, part(8)).measured == 1
    assert requested == [False]


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
    _, training, scoring, labeling, whole_job = rows(MEASURED, workers=2).values()
    assert training.startswith("46.0 s: 25 steps of 24 examples, 16.00 per second")
    assert scoring.startswith("12.0 s: 2 x 95 features, 20.00 per second")
    assert labeling.startswith("2.0 s: 1 x 11") and whole_job.startswith("1 min 05 s from")


def test_four_modeled_workers_add_the_all_reduce():
    """100 MB at 10 Gbit/s take 0.08 s, what 4 workers send 0.12 s, and a step 1.5 s.

    12 steps of 1.62 s; 1 pass of 3 batches; 1 batch.
    """
    actual = rows(MEASURED, RemoteWorkers(4, None, Link(10.0, 0.0)))
    expected = {
        "features": "5.0 s, made once",
        "training": "19.4 s: 12 steps of 48 examples, 29.63 per second",
        "scoring": "3.0 s: 1 x 95 features, 40.00 per second",
        "labeling": "1.0 s: 1 x 11 features, 40.00 per second",
        "whole job": "28.4 s at an efficiency of 0.926, estimated from 8.00 examples/s of a single "
        "worker, as on hosts like this one, and links of 10 Gbit/s with 0 us latency",
    }
    assert actual == {**rows(MEASURED), **{f"4 workers: {k}": v for k, v in expected.items()}}


def test_float16_halves_the_all_reduce_and_rates_can_be_given():
    """At another rate, a step of 12 examples takes 0.1 s and the all-reduce 0.12 s; prediction is 3
    times faster."""
    actual = rows(MEASURED, RemoteWorkers(4, None, Link(10.0, 0.0)), allreduce_dtype="float16")
    assert "at an efficiency of 0.962, " in actual["4 workers: whole job"]
    actual = rows(MEASURED, RemoteWorkers(4, 120.0, Link(10.0, 0.0)))
    assert actual["4 workers: training"] == "2.6 s: 12 steps of 48 examples, 218.18 per second"
    assert actual["4 workers: scoring"] == "0.1 s: 1 x 95 features, 1440.00 per second"
    said = "efficiency of 0.455, estimated from 120.00 examples/s of a single worker, as given"
    assert said in actual["4 workers: whole job"]


def test_a_number_of_workers_that_cannot_split_the_batch_is_said(monkeypatch):
    def refuse(task, settings):
        if collectives.size() == 3:
            raise FlagError("16 cannot be split")

    monkeypatch.setattr(StepsTask, "check", refuse)
    actual = rows(MEASURED, RemoteWorkers(3, None, Link()))
    assert actual["3 workers: whole job"] == "not possible: 16 cannot be split"
    assert "3 workers: training" not in actual and "whole job" in actual


def test_a_given_rate_needs_no_measurement():
    actual = rows(MEASURED._replace(paces={}), RemoteWorkers(1, 8.0, Link()))
    items = "features", "training", "scoring", "labeling", "whole job"
    assert list(actual) == [f"1 worker: {item}" for item in items]
    # 150 micro-batches of 0.5 s, 30 batches of 10 / 24 s and 2.
    assert actual["1 worker: whole job"].startswith("1 min 33 s at an efficiency of 1.000, ")


def test_without_training_only_scoring_is_estimated(tmp_path):
    """The initial checkpoint is scored if there is no other; otherwise all are."""
    measured = Measurement(0.0, {DEV: part(95)}, {DEV: BatchTime(2.0, 1.0, 2)})
    actual = rows(measured, RemoteWorkers(4, None, Link()), trains=False)
    assert actual == {
        "scoring": "11.0 s: 1 x 95 features, 10.00 per second, measured over 2 batches after "
        "the first",
        "whole job": "11.0 s from the start, on hosts like this one",
        "other workers": "not estimated: nothing is trained",
    }
    for step in (1, 2, 3):
        write_checkpoint(tmp_path / f"model.ckpt-{step}", {"w": 0.0})
    actual = rows(measured, trains=False, output_dir=str(tmp_path))
    assert actual["scoring"].startswith("33.0 s: 3 x 95 features")


@pytest.mark.parametrize(("workers", "times"), [(1, 0), (2, 1), (4, 1.5), (64, 1.96875)])
def test_more_workers_send_less_than_twice(workers, times):
    """200 MB at 10 Gbit/s: sending the gradients once takes 0.16 s."""
    scaled = scale(0.16, step_traffic(50_000_000, workers), Link(10.0, microseconds=0.0))
    assert scaled == pytest.approx((0.16 * times, 0.16 * (1 + times), 1 / (1 + times)))


@pytest.mark.parametrize(
    ("shard", "batches", "wire", "expected", "turns"),
    [
        ("none", 3, 2, 0.75 * (2 + 2), 6),
        ("state", 3, 4, 0.75 * (4 + 4), 6),
        ("state", 3, 2, 0.75 * (2 + 4), 6),
        ("gradients", 1, 4, 0.75 * (4 + 4), 6),
        ("gradients", 3, 2, 0.75 * (3 * 2 + 4), 12),
    ],
)
def test_four_workers_send_as_much_as_their_way_needs(shard, batches, wire, expected, turns):
    """Weights are gathered in float32, whichever type the gradients are sent in."""
    assert step_traffic(1000, 4, wire, shard, batches) == (1000 * expected, turns)


def test_a_link_has_bandwidth_and_latency():
    assert str(Link()) == "links of 100 Gbit/s with 20 us latency"
    assert scale(1.0, step_traffic(0, 64), Link()).allreduce == pytest.approx(126 * 20e-6)
