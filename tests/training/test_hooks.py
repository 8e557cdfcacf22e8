"""Hooks that run between training steps: checkpoints, log lines, curves."""

import re
import resource
import types

import pytest
import tensorflow.compat.v1 as tf

from albert.core import signals
from albert.distributed import collectives
from albert.optimization import TrainStep
from albert.settings.run_settings import RunSettings
from albert.training import checkpoint_hook, log_hook
from albert.training.metrics import Curves
from tests.helpers.checkpoints import points
from tests.helpers.files import limited


def train(folder, hook, clock, durations, monitor=None):
    """Runs steps during which the clock advances for `durations`. Step k has the loss 1 / (k + 1),
    the learning rate k / 1000, and 100 + k tokens."""
    monitor = monitor or log_hook.StepMonitor()
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        done = step.read_value()
        before = tf.cast(done, tf.float32)
        figures = [1 / (before + 1), before / 1000, 100 + tf.cast(done, tf.int32)]
        with tf.control_dependencies(figures):
            increment = tf.assign_add(step, 1)
        monitor.step = TrainStep(increment.op, *figures)
        tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver(max_to_keep=0))
        with tf.train.SingularMonitoredSession([hook], checkpoint_dir=str(folder)) as session:
            for duration in durations:
                if session.should_stop():
                    break
                clock.now += duration
                session.run(increment)


@pytest.fixture
def clock(stop_clock):
    return stop_clock(checkpoint_hook, log_hook)


@pytest.fixture
def logged(tmp_path, clock, log):
    """Trains steps of some durations with a log; returns its lines."""

    def logged(durations, total, batch, every, summary=1, micro=1, folder=str(tmp_path)):
        flags = {"train_batch_size": batch // micro, "gradient_accumulation_steps": micro}
        settings = RunSettings(**flags, log_steps=every, save_summary_steps=summary)
        monitor = log_hook.StepMonitor()
        hook = log_hook.TrainingLog(monitor, folder, total, settings)
        train(tmp_path, hook, clock, durations, monitor)
        return log()

    return logged


def saving(folder, last, every, minutes=0.0, micro=1):
    flags = {"save_checkpoints_steps": every, "save_checkpoints_minutes": minutes}
    settings = RunSettings(**flags, gradient_accumulation_steps=micro)
    return checkpoint_hook.SaveCheckpoints(str(folder), last, settings)


def run_steps(folder, count, every, last):
    hook = saving(folder, last, every)
    train(folder, hook, types.SimpleNamespace(now=0), [0] * count)


def saved(folder, name="model.ckpt"):
    """Returns the steps of the checkpoints, each of which must hold the step in its name."""
    steps = sorted(int(f.stem.removeprefix(f"{name}-")) for f in folder.glob(f"{name}-*.index"))
    for step in steps:
        assert tf.train.load_variable(str(folder / f"{name}-{step}"), "global_step") == step
    return steps


def names_in(lines):
    return [re.fullmatch(r"Saved .*/(\w+\.ckpt-\d+)", line).group(1) for line in lines]


class TestSaveCheckpoints:
    def test_several_workers_get_twice_the_longest_step_to_stop(self, tmp_path, clock, monkeypatch):
        """A step with a lost worker would never end."""
        noted = []
        monkeypatch.setattr(signals, "defer", noted.append)
        monkeypatch.setattr(collectives, "size", lambda: 2)
        monkeypatch.setattr(collectives, "all_reduce_sum", lambda requests: requests)
        seconds = iter([3, 7, 2])

        def noted_in_a_step() -> None:
            clock.now += next(seconds)

        monkeypatch.setattr(signals, "deferred", noted_in_a_step)
        train(tmp_path, saving(tmp_path, 9, 9), clock, [0] * 3)
        assert noted == [60, 15 + 2 * 3, 15 + 2 * 7, 15 + 2 * 7]

    @pytest.mark.parametrize(
        ("seconds", "last", "micro_batches", "expected"),
        [
            (4, 9, 1, ["model.ckpt-3", "resume.ckpt-4"]),
            # In steps that are saved anyway.
            *((3, 5, 1, ["model.ckpt-3"]), (5, 5, 1, ["model.ckpt-3", "model.ckpt-5"])),
            # A step of three runs.
            *((4, 9, 3, ["resume.ckpt-2"]), (11, 9, 3, ["model.ckpt-3", "resume.ckpt-4"])),
        ],
    )
    def test_a_signal_ends_the_step_and_saves_it(
        self, tmp_path, clock, monkeypatch, log, seconds, last, micro_batches, expected
    ):
        monkeypatch.setattr(signals, "deferred", lambda: 15 if clock.now >= seconds else None)
        hook = saving(tmp_path, last, 3, micro=micro_batches)
        train(tmp_path, hook, clock, [1] * 20)
        assert names_in(log()) == expected
        newest = tf.train.latest_checkpoint(str(tmp_path))
        assert newest == str(tmp_path / expected[-1])
        runs = int(newest.rpartition("-")[2]) * micro_batches
        assert tf.train.load_variable(newest, "global_step") == runs

    def test_checkpoints_are_also_saved_by_the_minute(self, tmp_path, clock, log):
        hook = saving(tmp_path, 100, 5, minutes=1.0)
        train(tmp_path, hook, clock, [20] * 12)
        expected = ["resume.ckpt-3", "model.ckpt-5", "resume.ckpt-8", "model.ckpt-10"]
        assert names_in(log()) == expected
        assert saved(tmp_path) == [5, 10] and saved(tmp_path, "resume.ckpt") == []

    def test_a_checkpoint_takes_its_name_when_it_is_whole(self, tmp_path, monkeypatch):
        """The saver may write its files in any order until it returns."""

        class Disturbed(tf.train.Saver):
            def save(self, session, path, **options):
                assert not list(tmp_path.glob("model.ckpt-*")), "nothing has the name yet"
                super().save(session, path, **options)
                raise tf.errors.ResourceExhaustedError(None, None, "No space left on device")

        with monkeypatch.context() as patch, pytest.raises(tf.errors.ResourceExhaustedError):
            patch.setattr(tf.train, "Saver", Disturbed)
            run_steps(tmp_path, 3, 1, 3)
        assert not list(tmp_path.glob("model.ckpt-*"))
        run_steps(tmp_path, 3, 1, 3)
        assert saved(tmp_path) == [1, 2, 3] and not list(tmp_path.glob(".saving*"))


LINE = re.compile(
    r"step (\d+)/(\d+) \(([\d.]+)%\)  loss ([\d.]+)  learning rate (\S+)  "
    r"([\d.]+) examples/s  (\d+) tokens/s  peak host memory [\d.]+ GB  (.+) left"
)


def parsed(lines):
    matches = [LINE.fullmatch(line) for line in lines if line.startswith("step ")]
    assert all(matches), lines
    return [match.groups() for match in matches]


class TestTrainingLog:
    def test_lines_have_loss_rate_and_remaining_time(self, logged):
        """The first step takes 2 s, the others 0.5 s, and those from the sixth on 1 s."""
        lines = logged([2] + [0.5] * 4 + [1] * 5, 10, batch=8, every=4)
        assert parsed(lines) == [
            ("1", "10", "10.0", "1.0000", "0", "4.00", "50", "18.0 s"),
            # Three steps in 1.5 s, of 101 to 103 tokens.
            ("4", "10", "40.0", "0.2500", "0.003", "16.00", "204", "3.0 s"),
            # Four in 3.5 s; since the first, seven in 5 s, so that two take 1.43 s.
            ("8", "10", "80.0", "0.1250", "0.007", "9.14", "121", "1.4 s"),
            ("10", "10", "100.0", "0.1000", "0.009", "8.00", "108", "0.0 s"),
        ]
        # The later ones have 101 to 109 tokens.
        times = "Trained 10 steps in 9.0 s, the first one in 2.0 s"
        assert lines[-1].startswith(f"{times}; later 10.29 examples/s  135 tokens/s  peak host mem")

    def test_a_resumed_run_logs_its_own_steps(self, tmp_path, logged):
        run_steps(tmp_path, 6, 100, 6)
        lines = logged([3] + [9] * 6, 100, batch=2, every=5)
        assert parsed(lines) == [
            ("7", "100", "7.0", "0.1429", "0.006", "0.67", "35", "4 min 39 s"),
            ("10", "100", "10.0", "0.1000", "0.009", "0.22", "12", "13 min 30 s"),
        ]
        assert lines[-1].startswith("Trained 7 steps in 57.0 s")

    def test_one_step_needs_no_curve_and_a_line_appears_every_half_minute(self, tmp_path, logged):
        assert "; later 4.00 examples/s  " in logged([2], 1, 8, 1, folder=None)[-1]
        assert points(tmp_path) == {}, "there is no folder for them"
        assert logged([], 1, 8, 1, folder=None) == []
        durations = [2] + [10] * 4 + [1, 29] + [31, 1, 29] + [1, 1]
        lines = parsed(logged(durations, 12, batch=8, every=6))
        # The first; 30 s after it; every sixth; 60 s and again 30 s later; the last.
        assert [int(line[0]) for line in lines] == [1, 4, 6, 8, 10, 12]

    @pytest.mark.parametrize("micro", [1, 2])
    def test_curves_have_each_steps_figures(self, tmp_path, logged, micro):
        durations = [d / micro for d in (2, 0.5, 0.5, 1, 1, 1) for _ in range(micro)]
        assert "step 6/6 (100.0%)" in "".join(logged(durations, 6, 8, 3, 2, micro=micro))
        curves = points(tmp_path)
        assert curves["examples_per_second"] == {1: 4, 3: 16, 6: 8}
        assert curves["peak_host_memory_gb"].keys() == {1, 3, 6}
        assert curves["loss"] == pytest.approx({n: 1 / (n * micro) for n in (2, 4, 6)})
        rates = {n: (n * micro - 1) / 1000 for n in (2, 4, 6)}
        assert curves["learning_rate"] == pytest.approx(rates)


def test_seconds_are_formatted_for_reading():
    for seconds, text in (
        *((0, "0.0 s"), (0.84, "0.8 s"), (59.94, "59.9 s"), (59.96, "1 min 00 s")),
        *((60, "1 min 00 s"), (192, "3 min 12 s"), (3599.4, "59 min 59 s")),
        *((3599.6, "1 h 00 min"), (7500, "2 h 05 min"), (90000, "25 h 00 min")),
    ):
        assert log_hook.format_seconds(seconds) == text


def test_a_full_disk_is_an_error_when_it_occurs(tmp_path):
    curves, error = Curves(str(tmp_path)), pytest.raises(tf.errors.OpError, match="File too large")
    with limited(resource.RLIMIT_FSIZE, 10), error:
        for step in range(100_000):
            curves.add(step, loss=1.0)
