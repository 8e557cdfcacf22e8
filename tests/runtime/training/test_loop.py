"""What ends a training, in words for people; the training itself is tested by whole runs."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from runtime import distributed, estimators
from runtime.devices import ops
from runtime.distributed import Worker
from runtime.errors import NOT_FINITE
from runtime.training.loop import make_estimator, reason_for_people


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
