"""Reasons for which a training waits or ends; whole runs test the rest."""

import re
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.core import estimators
from albert.core.errors import NOT_FINITE
from albert.devices import ops
from albert.distributed import collectives
from albert.distributed.collectives import Worker
from albert.optimization import TrainStep
from albert.training import hooks, loop
from albert.training.hooks import StepMonitor
from albert.training.loop import TrainingPlan, make_estimator, train, user_message
from tests.helpers.checkpoints import points, write_checkpoint


def error_of(make_operation) -> tf.errors.OpError:
    """Returns TensorFlow's own error when an operation fails."""
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(tf.errors.OpError) as caught:
            session.run(make_operation())
        return caught.value


@pytest.mark.parametrize(
    ("fail", "reason"),
    [
        # TensorFlow suggests memory, regardless of the exhausted resource.
        (
            lambda: tf.io.write_file("/dev/full", "x" * 100000),
            r"^out: cannot write a checkpoint or a curve \(No space left on device\)",
        ),
        # More than any machine has.
        (lambda: tf.fill([1 << 25, 1 << 20], tf.random.normal([])), "lower --train_batch_size"),
        (
            lambda: tf.debugging.check_numerics(tf.log([-1.0]), NOT_FINITE),
            "NaN or infinite at step 7.*no checkpoint was written yet",
        ),
        (lambda: tf.strings.to_number(tf.constant("x")), None),
    ],
    ids=["full disk", "out of memory", "not finite", "a bug"],
)
def test_errors_of_tensorflow_become_user_messages(fail, reason):
    found = user_message(error_of(fail), "out", 7)
    assert found is None if reason is None else re.search(reason, found)


@pytest.mark.parametrize("is_newest", [True, False])
def test_a_changed_byte_in_a_checkpoint_is_named(tmp_path, is_newest):
    """In the run's folder, training resumes from it; elsewhere it is --init_checkpoint."""
    folder = tmp_path if is_newest else tmp_path / "elsewhere"
    prefix = write_checkpoint(folder / "model.ckpt-7", {"w": np.ones(100, "f4")})
    data = bytearray((folder / "model.ckpt-7.data-00000-of-00001").read_bytes())
    data[50] ^= 4
    (folder / "model.ckpt-7.data-00000-of-00001").write_bytes(data)
    error = error_of(
        lambda: tf.raw_ops.RestoreV2(
            prefix=prefix, tensor_names=["w"], shape_and_slices=[""], dtypes=[tf.float32]
        )
    )
    named = re.escape(prefix) if is_newest else "--init_checkpoint"
    reason = user_message(error, str(tmp_path), 7)
    assert re.fullmatch(rf"{named} is damaged \(.*Checksum does not match.*\); .*", reason)


def test_every_worker_draws_its_own_dropout(monkeypatch, tmp_path):
    """The masks repeat in every run with a seed. With equal masks on all workers, a batch would
    have fewer masks."""

    def model_fn(features, labels, mode, params):
        tf.train.get_or_create_global_step()
        return estimators.EstimatorSpec(mode, predictions={"mask": ops.dropout(features, 0.5)})

    def mask_of(rank: int, seed: int) -> bytes:
        monkeypatch.setattr(collectives, "_worker", Worker(rank, 3, rank, 3, "mpirun"))
        estimator = make_estimator(model_fn, str(tmp_path), seed, scoped_allocator=False)
        (row,) = estimator.predict(lambda: tf.data.Dataset.from_tensors(tf.ones([1, 64])))
        return row["mask"].tobytes()

    masks = [mask_of(rank, seed=5) for rank in range(3)]
    assert len(set(masks)) == 3
    assert mask_of(1, seed=5) == masks[1]
    assert mask_of(0, seed=7) != masks[0]


def model_of(loss_of):
    """Returns a model without variables, whose loss is a Python function of its features."""

    def model_fn(features, labels, mode, params):
        loss = tf.numpy_function(loss_of, [features["x"]], features["x"].dtype)
        with tf.control_dependencies([loss]):
            op = tf.assign_add(tf.train.get_or_create_global_step(), 1)
        tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver(tf.global_variables()))
        carrier = estimators.GraphParts(TrainStep(op, loss, loss, loss))
        return estimators.EstimatorSpec(mode, loss=loss, train_op=op, training_hooks=[carrier])

    return model_fn


def test_scoring_time_does_not_count_as_training(tmp_path, log, stop_clock):
    clock = stop_clock(loop, hooks)

    def train_on(number: float) -> float:
        clock.now += 5
        return number

    def score() -> bool:
        clock.now += 10_000
        return False

    plan, monitor = TrainingPlan(4, 1, 1, 2, 10, 1), StepMonitor()
    model_fn = monitor.watching(model_of(train_on))
    estimator = make_estimator(model_fn, str(tmp_path), 1, False)
    batches = tf.data.Dataset.from_tensors
    train(estimator, monitor, lambda: batches({"x": 1.0}).repeat(), plan, score)
    assert clock.now == 20_020
    assert ["time", "20.0", "s"] in map(str.split, log())


@pytest.mark.parametrize("ahead", [False, True])
def test_the_time_that_a_step_waits_for_its_batch(tmp_path, stop_clock, ahead):
    """It is the time to make batches, unless they are made ahead, and excludes the step's own
    time."""
    steps, clock = 5, stop_clock(loop, hooks)
    made, begun = ([threading.Event() for _ in range(steps + 2)] for _ in range(2))

    def make(number: float) -> float:
        assert not (ahead and number) or begun[int(number) - 1].wait(timeout=60)
        clock.now += 3
        made[int(number)].set()
        return number

    def train_on(number: float) -> float:
        begun[int(number)].set()
        clock.now += 5
        assert not ahead or made[int(number) + 1].wait(timeout=60)
        return number

    def input_fn() -> tf.data.Dataset:
        batches = tf.data.Dataset.from_tensor_slices(np.arange(steps + 1.0))
        batches = batches.map(lambda x: {"x": tf.numpy_function(make, [x], x.dtype)})
        # Otherwise TensorFlow adds it.
        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False
        return batches.prefetch(1) if ahead else batches.with_options(options)

    monitor = StepMonitor()
    model_fn = monitor.watching(model_of(train_on))
    estimator = make_estimator(model_fn, str(tmp_path), 1, False)
    train(estimator, monitor, input_fn, TrainingPlan(steps, 1, 1, 10, 1, 1))
    shares = points(tmp_path)["waiting_for_input"]
    # Some of the first batches are made before the first step begins, or while it waits.
    first = shares.pop(1)
    assert ahead or first == pytest.approx(3 / 8)
    assert shares == {step: 0 if ahead else pytest.approx(3 / 8) for step in range(2, steps + 1)}
