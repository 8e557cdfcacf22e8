"""Reasons for which a training waits or ends; whole runs test the rest."""

import functools
import pathlib
import re
import resource
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.core import estimators
from albert.core.errors import NOT_FINITE, UserError
from albert.distributed import collectives
from albert.optimization import OptimizerOptions, TrainStep
from albert.prediction.model import HeadOutput, ModelOptions
from albert.settings.run_settings import RunSettings
from albert.training import log_hook, loop
from albert.training.log_hook import StepMonitor
from albert.training.loop import make_estimator, train, user_message
from albert.training.model_fn import make_model_fn
from tests.helpers.checkpoints import points, weights, write_checkpoint
from tests.helpers.files import limited


def settings_of(folder: pathlib.Path, save_checkpoints_steps: int) -> RunSettings:
    flags = {"output_dir": str(folder), "save_checkpoints_steps": save_checkpoints_steps}
    return RunSettings(**flags, log_steps=1, save_checkpoints_minutes=0.0, train_batch_size=1)


def error_of(make_operation) -> tf.errors.OpError:
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(tf.errors.OpError) as caught:
            session.run(make_operation())
        return caught.value


@pytest.mark.parametrize(
    ("fail", "reason"),
    [
        # TensorFlow suggests memory, regardless of the exhausted resource.
        (lambda: tf.io.write_file("/dev/full", "x" * 100000), "cannot write .*No space left on de"),
        # More than any machine has. TensorFlow waits 10 s for it.
        pytest.param(
            lambda: tf.fill([1 << 25, 1 << 20], tf.random.normal([])),
            "lower --train_batch_size",
            marks=pytest.mark.slow,
        ),
        (lambda: tf.debugging.check_numerics(tf.log([-1.0]), NOT_FINITE), "checkpoints are go"),
        (lambda: tf.strings.to_number(tf.constant("x")), None),
    ],
    ids=["full disk", "out of memory", "not finite", "a bug"],
)
def test_errors_of_tensorflow_become_user_messages(fail, reason):
    actual = user_message(error_of(fail), "out", 7)
    assert actual is None if reason is None else re.search(reason, actual)


@pytest.mark.parametrize("is_newest", [True, False])
def test_a_changed_byte_in_a_checkpoint_is_named(tmp_path, is_newest):
    """In the run's folder, training resumes from it; elsewhere it is --init_checkpoint."""
    folder = tmp_path if is_newest else tmp_path / "elsewhere"
    prefix = write_checkpoint(folder / "model.ckpt-7", {"w": np.ones(100, "f4")})
    data = bytearray((folder / "model.ckpt-7.data-00000-of-00001").read_bytes())
    data[50] ^= 4
    (folder / "model.ckpt-7.data-00000-of-00001").write_bytes(data)
    what = {"tensor_names": ["w"], "shape_and_slices": [""], "dtypes": [tf.float32]}
    error = error_of(lambda: tf.raw_ops.RestoreV2(prefix=prefix, **what))
    named = re.escape(prefix) if is_newest else "--init_checkpoint"
    reason = user_message(error, str(tmp_path), 7)
    assert re.fullmatch(rf"{named} is damaged \(.*Checksum does not match.*\); .*", reason)


def test_every_worker_draws_its_own_dropout(as_worker, tmp_path):
    """With equal masks on all workers, a batch would have fewer masks."""
    settings, seeds = RunSettings(output_dir=str(tmp_path), seed=5), []
    for rank in range(3):
        as_worker(rank, 3)
        seeds.append(make_estimator(model_of(None), settings).config.tf_random_seed)
    assert seeds == [5, 6, 7], "see tests/devices/test_ops.py"


@pytest.mark.parametrize("is_habana", [True, False])
def test_only_habanas_horovod_allocates_by_scope(monkeypatch, tmp_path, log, is_habana):
    monkeypatch.setattr(collectives, "is_habana_horovod", lambda: is_habana)
    for requested in (True, False):
        settings = RunSettings(output_dir=str(tmp_path), enable_scoped_allocator=requested)
        estimator = make_estimator(model_of(None), settings)
        rewrites = estimator.config.session_config.graph_options.rewrite_options
        is_on = rewrites.scoped_allocator_optimization == type(rewrites).ON
        assert is_on == (requested and is_habana)
        assert rewrites.scoped_allocator_opts.enable_op == ["HorovodAllreduce"] * is_on
    assert len([line for line in log() if "has no effect with this Horovod" in line]) != is_habana


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


def test_a_checkpoint_beyond_the_limit_of_files_is_an_error(tmp_path):
    """TensorFlow reports it as it reports the end of the data, which would end the training."""
    monitor = StepMonitor()

    def model_fn(features, labels, mode, params):
        tf.get_variable("large", [10_000])
        return model_of(lambda x: x)(features, labels, mode, params)

    settings = settings_of(tmp_path, 2)
    estimator = make_estimator(monitor.watching(model_fn), settings)

    def input_fn() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors({"x": 1.0}).repeat()

    with (
        limited(resource.RLIMIT_FSIZE, 20_000),
        pytest.raises(UserError, match=r"cannot write a checkpoint .*\(File too large\)"),
    ):
        train(estimator, monitor, input_fn, settings, 3)


def test_waiting_for_a_batch_and_scoring_are_timed_apart_from_steps(tmp_path, log, stop_clock):
    steps, clock = 4, stop_clock(loop, log_hook)

    def taking(seconds: float) -> Callable[[float], float]:
        def work(number: float) -> float:
            clock.now += seconds
            return number

        return work

    def input_fn() -> tf.data.Dataset:
        batches = tf.data.Dataset.from_tensor_slices(np.arange(steps + 1.0))
        batches = batches.map(lambda x: {"x": tf.numpy_function(taking(3), [x], x.dtype)})
        # Otherwise TensorFlow makes batches ahead.
        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False
        return batches.with_options(options)

    monitor = StepMonitor()
    model_fn = monitor.watching(model_of(taking(5)))
    settings = settings_of(tmp_path, 2)
    estimator = make_estimator(model_fn, settings)
    score = taking(10_000)
    train(estimator, monitor, input_fn, settings, steps, lambda: bool(score(0)))
    assert clock.now == 20_000 + steps * 8
    lines = log()
    assert any(line.startswith("Trained 4 steps in 32.0 s") for line in lines)
    assert sum("  waiting for input 37.5%  peak " in line for line in lines) == steps + 1
    shares = points(tmp_path)["waiting_for_input"]
    assert shares == {step: pytest.approx(3 / 8) for step in range(1, steps + 1)}


def test_skipped_steps_are_logged_saved_and_resumed(tmp_path, log):
    def model_fn(features, labels, mode, params):
        weights = tf.get_variable("w", initializer=[1.0, -2.0])
        # The gradient overflows only when it is scaled; the loss of another step is NaN.
        head = HeadOutput(tf.reduce_sum(tf.square(weights)) * features["x"], {})
        options = ModelOptions(OptimizerOptions(0.1, 9, scales_loss=True))
        build = make_model_fn(None, lambda *_: head, options)
        spec = build({**features, "input_mask": tf.ones([1])}, labels, mode, params)
        tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver(tf.global_variables()))
        return spec

    def train_to(folder: pathlib.Path, last: int, first: int = 0) -> list[str]:
        monitor = StepMonitor()
        settings = settings_of(folder, 3)
        estimator = make_estimator(monitor.watching(model_fn), settings)
        slopes = [1.0, 3e36, 1.0, 2.0, np.nan, 1.0][first:]
        features = {"x": np.array(slopes, "f4")}
        data = functools.partial(tf.data.Dataset.from_tensor_slices, features)
        train(estimator, monitor, data, settings, last)
        return log()

    whole = train_to(tmp_path / "whole", 6)
    train_to(tmp_path / "parts", 3)
    resumed = train_to(tmp_path / "parts", 6, first=3)
    skipped = [line for line in whole if line.startswith("Skipped")]
    assert skipped == [
        "Skipped step 2: its gradients overflow float16; the loss scale is now 16384",
        "Skipped step 5: its gradients overflow float16; the loss scale is now 8192",
    ]
    assert [line for line in resumed if line.startswith("Skipped")] == skipped[1:]
    for lines in (whole, resumed):
        (line,) = (line for line in lines if line.startswith("step 6/6"))
        assert "  loss scale 8192  skipped=2  " in line
    actual = [weights(tmp_path / name, "model.ckpt-6") for name in ("whole", "parts")]
    assert actual[0].keys() > {"w", "w/adam_v", "loss_scale", "loss_scale/skipped_steps"}
    np.testing.assert_equal(*actual)
    assert points(tmp_path / "whole")["skipped"] == {1: 0, 2: 1, 3: 1, 4: 1, 5: 2, 6: 2}
