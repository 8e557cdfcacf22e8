"""What a training waits for, and what ends it; the rest is tested by whole runs."""

from __future__ import annotations

import re
import threading
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from runtime import distributed, estimators
from runtime.devices import ops
from runtime.distributed import Worker
from runtime.errors import NOT_FINITE
from runtime.training import graph_keys
from runtime.training.loop import TrainingPlan, make_estimator, reason_for_people, train


def error_of(make_operation) -> tf.errors.OpError:
    """TensorFlow's own error when an operation fails."""
    with (
        tf.Graph().as_default(),
        tf.Session() as session,
        pytest.raises(tf.errors.OpError) as caught,
    ):
        session.run(make_operation())
    return caught.value


def test_a_full_disk():
    error = error_of(lambda: tf.io.write_file("/dev/full", "x" * 100000))
    # TensorFlow's hint, of whatever is exhausted.
    assert "OOM" in error.message
    reason = reason_for_people(error, "out", 7)
    assert reason.startswith(
        "out: a checkpoint or a curve cannot be written (No space left on device)"
    )


def test_out_of_memory():
    """More than any machine has."""
    error = error_of(lambda: tf.reduce_sum(tf.fill([1 << 25, 1 << 20], tf.random.normal([]))))
    assert "lower --train_batch_size" in reason_for_people(error, "out", 7)


def test_not_finite(tmp_path):
    error = error_of(lambda: tf.debugging.check_numerics(tf.log(tf.constant(-1.0)), NOT_FINITE))
    reason = reason_for_people(error, str(tmp_path), 7)
    assert "NaN or infinite at step 7" in reason and "no checkpoint was written yet" in reason


@pytest.mark.parametrize("is_newest", [True, False])
def test_a_byte_of_a_checkpoint_that_is_another(tmp_path, is_newest):
    """In the folder of the run it is where the training goes on, elsewhere --init_checkpoint."""
    folder = tmp_path if is_newest else tmp_path / "elsewhere"
    prefix = str(folder / "model.ckpt-7")
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("w", initializer=tf.ones([100]))
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, prefix)
    data = bytearray((folder / "model.ckpt-7.data-00000-of-00001").read_bytes())
    data[50] ^= 4
    (folder / "model.ckpt-7.data-00000-of-00001").write_bytes(data)
    error = error_of(
        lambda: tf.raw_ops.RestoreV2(
            prefix=prefix, tensor_names=["w"], shape_and_slices=[""], dtypes=[tf.float32]
        )
    )
    reason = reason_for_people(error, str(tmp_path), 7)
    named = prefix if is_newest else "--init_checkpoint"
    assert re.match(rf"{re.escape(named)} is damaged \(.*Checksum does not match.*\); ", reason)
    assert "\n" not in reason


def test_anything_else_is_a_bug():
    error = error_of(lambda: tf.strings.to_number(tf.constant("x")))
    assert reason_for_people(error, "out", 7) is None


def test_every_worker_draws_dropout_of_its_own(monkeypatch, tmp_path):
    """The same in every run with a seed; were it one for all, a batch had as few masks as workers
    make of it."""

    def model_fn(features, labels, mode, params):
        tf.train.get_or_create_global_step()
        mask = ops.dropout(features, 0.5)
        return estimators.EstimatorSpec(mode, predictions={"mask": mask})

    def mask_of(rank: int, seed: int) -> bytes:
        monkeypatch.setattr(distributed, "_worker", Worker(rank, 3, rank, 3, "mpirun"))
        estimator = make_estimator(model_fn, str(tmp_path), seed, scoped_allocator=False)
        data = np.ones([1, 64], np.float32)
        (row,) = estimator.predict(lambda: tf.data.Dataset.from_tensors(data))
        return row["mask"].tobytes()

    masks = [mask_of(rank, seed=5) for rank in range(3)]
    assert len(set(masks)) == 3
    assert mask_of(1, seed=5) == masks[1]
    assert mask_of(0, seed=7) != masks[0]


def work() -> float:
    """Returns the seconds that some work took."""
    began = time.perf_counter()
    np.sort(np.random.default_rng(1).random(500_000))
    return time.perf_counter() - began


class Waits(tf.train.SessionRunHook):
    """Takes down for how many seconds each step waited for its batch."""

    def begin(self) -> None:
        (self._waited,) = tf.get_collection(graph_keys.WAITED)
        self.seconds: list[float] = []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._waited)

    def after_run(self, run_context, run_values) -> None:
        self.seconds.append(run_values.results)


def test_time_of_scoring_is_none_of_the_trainings(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    caplog.set_level("INFO", tf.get_logger().name)

    def input_fn() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors({"x": 1.0}).repeat()

    def model_fn(features, labels, mode, params):
        for key in (graph_keys.LOSS, graph_keys.LEARNING_RATE, graph_keys.TOKENS):
            tf.add_to_collection(key, features["x"])
        step = tf.assign_add(tf.train.get_or_create_global_step(), 1)
        tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver(tf.global_variables()))
        return estimators.EstimatorSpec(mode, loss=features["x"], train_op=step)

    def score() -> bool:
        time.sleep(2.0)
        return False

    plan = TrainingPlan(4, 1, 1, 2, 10, 1)
    train(make_estimator(model_fn, str(tmp_path), 1, False), input_fn, plan, score)
    (took,) = (r.args[1] for r in caplog.records if r.args and r.args[0] == "time")
    assert float(took.removesuffix(" s")) < 2.0


@pytest.mark.parametrize("ahead", [False, True])
def test_time_that_a_step_waits_for_its_batch(tmp_path, ahead):
    """It is all of the making of batches, unless they are made ahead, and nothing of the step's."""
    made = [threading.Event() for _ in range(6)]
    making, training = [], []

    def make(number: int) -> float:
        making.append(work())
        made[number].set()
        return float(number)

    def train_on(number: float) -> float:
        training.append(work())
        assert not ahead or made[int(number) + 1].wait(timeout=60)
        return number

    def input_fn() -> tf.data.Dataset:
        batches = tf.data.Dataset.range(len(made))
        batches = batches.map(lambda number: {"x": tf.numpy_function(make, [number], tf.float64)})
        # Else TensorFlow adds it.
        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False
        return batches.prefetch(1) if ahead else batches.with_options(options)

    def model_fn(features, labels, mode, params):
        loss = tf.numpy_function(train_on, [features["x"]], tf.float64)
        for key in (graph_keys.LOSS, graph_keys.LEARNING_RATE, graph_keys.TOKENS):
            tf.add_to_collection(key, loss)
        with tf.control_dependencies([loss]):
            step = tf.assign_add(tf.train.get_or_create_global_step(), 1)
        return estimators.EstimatorSpec(mode, loss=loss, train_op=step)

    steps, waits = 5, Waits()
    began = time.perf_counter()
    plan = TrainingPlan(steps, 1, 1, 10, 10, 10)
    train(make_estimator(model_fn, str(tmp_path), 1, False), input_fn, plan, more_hooks=[waits])
    total = time.perf_counter() - began
    assert len(waits.seconds) == len(training) == steps
    assert waits.seconds[0] >= making[0]
    assert (sum(waits.seconds) >= sum(making[:steps])) != ahead
    assert sum(waits.seconds) + sum(training) <= total
