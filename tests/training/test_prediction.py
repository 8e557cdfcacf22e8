"""Prediction: distributed batches end up in order, and checkpoints share a graph."""

import itertools
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.core import estimators
from albert.core.errors import UserError
from albert.distributed import exchange
from albert.training import prediction
from albert.training.prediction import Predictor, as_bytes
from tests.helpers.checkpoints import write_checkpoint


def test_checkpoints_share_a_graph_until_the_end(tmp_path, request):
    """The models multiply by 2 and by 3."""

    def model_fn(features, labels, mode, params):
        weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
        tf.train.get_or_create_global_step()
        return estimators.EstimatorSpec(mode, predictions={"product": features * weight})

    def input_fn():
        return tf.data.Dataset.range(10).map(lambda x: tf.cast(x, tf.float32)).batch(4)

    models = ({"global_step": np.int64(0), "weight": np.float32(weight)} for weight in (2, 3))
    paths = (tmp_path / f"model.ckpt-{number}" for number in (2, 3))
    checkpoints = list(map(write_checkpoint, paths, models))
    predictor = Predictor(estimators.Estimator(model_fn, str(tmp_path)), input_fn, 4, 10)
    # TensorFlow crashes if a process that is forked later collects an open session.
    request.addfinalizer(predictor.close)
    for checkpoint, weight in zip(checkpoints, (2, 3), strict=True):
        rows = predictor.outputs(checkpoint)
        assert [row["product"] for row in rows] == [weight * number for number in range(10)]
        session = predictor._session
    assert predictor.outputs(checkpoints[0])[9]["product"] == 18
    assert predictor._session is session
    # As after a checkpoint of a training that continues.
    predictor.finish()
    assert predictor.outputs(checkpoints[1])[9]["product"] == 27
    assert predictor._session is session
    predictor.close()
    with pytest.raises(RuntimeError, match="closed"):
        next(session.run_pipeline())
    # Not only the first one is checked.
    other = write_checkpoint(tmp_path / "model.ckpt-9", {"weight": np.ones(2, "f4")})
    with pytest.raises(UserError, match=r"model.ckpt-9 does not match the model.*weight \[2\]"):
        predictor.outputs(other)


def test_two_batches_at_a_time_keep_their_order(tmp_path):
    """Each waits until the next one is computed, too."""
    barrier, threads = threading.Barrier(2, timeout=20), {"inter_op_parallelism_threads": 2}

    def wait(values):
        barrier.wait()
        return values + 1

    def model_fn(features, labels, mode, params):
        tf.train.get_or_create_global_step()
        values = tf.numpy_function(wait, [features["number"]], tf.int64)
        return estimators.EstimatorSpec(mode, predictions={"value": values})

    def input_fn():
        return tf.data.Dataset.range(20).map(lambda x: {"number": x}).batch(2)

    session_config = tf.ConfigProto(use_per_session_threads=True, **threads)
    config = estimators.RunConfig(session_config=session_config)
    predictor = Predictor(estimators.Estimator(model_fn, str(tmp_path), config), input_fn, 2, 20)
    found = [batch["value"].tolist() for batch in predictor.batches(None)]
    predictor.close()
    assert found == [[n, n + 1] for n in range(1, 21, 2)]


def rows_of(numbers: list[int], length: int) -> dict[str, np.ndarray]:
    """Returns a model's outputs for examples; logits depend on the length of their batch."""
    columns = np.array(numbers, np.int32)
    return {"id": columns, "logits": np.arange(length, dtype=np.float32) - columns[:, None]}


@pytest.mark.parametrize(
    ("workers", "batch_size", "count"), [(1, 4, 10), (2, 3, 12), (3, 2, 11), (3, 8, 5), (2, 2, 41)]
)
@pytest.mark.parametrize("is_mixed", [True, False])
def test_rows_keep_their_order(monkeypatch, as_worker, workers, batch_size, count, is_mixed):
    """The last batch is filled up; a worker may have no batch at all, or more than one round."""
    order = np.random.default_rng(1).permutation(count) if is_mixed else np.arange(count)
    batches = np.append(order, [-1] * (-count % batch_size)).reshape(-1, batch_size).tolist()
    made = [rows_of(batch, 3 + n % 2) for n, batch in enumerate(batches)]
    packed, rounds = list(map(as_bytes, made)), itertools.count()

    def gather(own, dtype):
        """Returns what all workers send; checks that this one sends its own."""
        first = next(rounds) * 2
        sent = [packed[rank::workers][first : first + 2] for rank in range(workers)]
        for mine, expected in zip(own, sent[0], strict=True):
            wanted = np.array(expected, dtype)
            assert (mine.shape, mine.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_array_equal(mine, wanted)
        return sent

    monkeypatch.setattr(prediction, "_ROUND", 2 * batch_size)
    as_worker(0, workers)
    monkeypatch.setattr(exchange, "broadcast_object", lambda value: value)
    monkeypatch.setattr(exchange, "gather_arrays", gather)
    predictor = Predictor(None, None, batch_size, count, order if is_mixed else None)
    monkeypatch.setattr(predictor, "batches", lambda checkpoint: iter(made[::workers]))
    outputs = predictor.outputs("model.ckpt-5")
    assert len(outputs) == count
    for number, output in enumerate(outputs):
        length = 3 + order.tolist().index(number) // batch_size % 2
        expected = {name: values[0] for name, values in rows_of([number], length).items()}
        np.testing.assert_equal(output, expected)
        assert all(output[name].dtype == value.dtype for name, value in expected.items())
