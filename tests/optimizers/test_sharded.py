"""The sharded optimizer of a single worker; `tests/test_sharded_optimizer.py` has several."""

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.checkpoints import sharded_state
from albert.checkpoints.sharded_state import ShardedState, whole_bytes
from albert.distributed import collectives
from albert.optimization import AdamWeightDecayOptimizer
from albert.optimizers.sharded import ShardedOptimizer, _Bucket
from tests.helpers.checkpoints import write_checkpoint

SHAPES = {"kernel": [3, 4], "bias": [4], "table": [5, 2]}


def variables() -> tuple[dict[str, np.ndarray], list[tf.Variable]]:
    rng = np.random.default_rng(3)
    values = {name: rng.normal(size=shape).astype("f4") for name, shape in SHAPES.items()}
    return values, [tf.get_variable(name, initializer=value) for name, value in values.items()]


@pytest.fixture
def horovod(monkeypatch):
    """Makes collectives of a single worker return what it sends."""
    same = {name: lambda t, *_, **__: t for name in ("reducescatter", "allgather")}
    monkeypatch.setattr(collectives, "_horovod", types.SimpleNamespace(Sum=None, **same))


def test_a_step_is_that_of_adamw_and_its_state_returns(horovod, tmp_path):
    """In NumPy: no bias correction, and no weight decay for the bias, as in the reference."""
    rate, decay, epsilon = 0.1, 0.5, 1e-6
    rng = np.random.default_rng(4)
    gradients = {name: rng.normal(size=shape).astype("f4") for name, shape in SHAPES.items()}
    with tf.Graph().as_default():
        weights, trained = variables()
        optimizer = AdamWeightDecayOptimizer(
            rate, decay, epsilon=epsilon, exclude_from_weight_decay=["bias"]
        )
        sharded = ShardedOptimizer(trained)
        shares = sharded.scatter([tf.constant(gradients[name]) for name in SHAPES])
        left_out = [name == "bias" for name in SHAPES]
        metrics = sharded.all_reduce_metrics_and_norm(tf.constant([7.0, 8.0]), shares, left_out)
        step = sharded.apply(optimizer, shares, tf.constant(1.0), tf.constant(0))
        state = ShardedState(str(tmp_path), lambda: sharded.state)
        state.begin()
        moments = [moment.variable for moment in sharded.state]
        start = tf.global_variables_initializer(), tf.local_variables_initializer()
        with tf.Session() as session:
            session.run(start)
            means, squares = session.run(metrics)
            session.run(step)
            actual = dict(zip(SHAPES, session.run(trained), strict=True))
            saved = session.run(moments)
            (prefix,) = state.write(session, str(tmp_path))
            tf.train.update_checkpoint_state(str(tmp_path), prefix)
        with tf.Session() as session:
            session.run(start)
            state.after_create_session(session, None)
            np.testing.assert_equal(session.run(moments), saved)
    np.testing.assert_array_equal(means, [7.0, 8.0])
    counted = [np.square(gradients[name], dtype="f8").sum() for name in ("kernel", "table")]
    assert squares == pytest.approx(sum(counted), rel=1e-5)
    stored = tf.train.load_checkpoint(prefix)
    for name, weight in weights.items():
        gradient = gradients[name].astype("f8")
        m, v = 0.1 * gradient, 0.001 * gradient**2
        update = m / (np.sqrt(v) + epsilon) + decay * weight * (name != "bias")
        np.testing.assert_allclose(actual[name], weight - rate * update, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(stored.get_tensor(f"{name}/adam_m"), m, rtol=1e-6)
        np.testing.assert_allclose(stored.get_tensor(f"{name}/adam_v"), v, rtol=1e-5)


@pytest.mark.parametrize(("most", "runs"), [(1, 6), (88, 3), (1000, 1)])
def test_state_is_gathered_and_read_in_parts(horovod, monkeypatch, tmp_path, most, runs):
    """So it takes the memory of a part, which may be as large as a variable: 48 bytes."""
    monkeypatch.setattr(collectives, "_VECTOR_BYTES", 1)
    monkeypatch.setattr(sharded_state, "_RUN_BYTES", most)
    with tf.Graph().as_default(), tf.Session() as session:
        sharded = ShardedOptimizer(variables()[1])
        state = ShardedState(str(tmp_path), lambda: sharded.state)
        state.begin()
        assert whole_bytes(sharded.state) == 2 * 4 * 26
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        parts = [tf.train.load_checkpoint(path) for path in state.write(session, str(tmp_path))]
        sizes = [part.get_variable_to_shape_map() for part in parts]
        assert sum(map(len, sizes)) == 6 and len(sizes) == runs
        bytes_of = [4 * sum(map(np.prod, shapes.values())) for shapes in sizes]
        assert max(bytes_of) <= max(most, 48)
        ones = {name: np.ones(shape, "f4") for shapes in sizes for name, shape in shapes.items()}
        prefix = write_checkpoint(tmp_path / "model.ckpt", ones)
        tf.train.update_checkpoint_state(str(tmp_path), prefix)
        fed, run = [], session.run

        def record(operation, feed):
            fed.append(sum(value.nbytes for value in feed.values()))
            run(operation, feed)

        monkeypatch.setattr(session, "run", record)
        state.after_create_session(session, None)
        assert fed == bytes_of
        assert all((run(moment.variable) == 1).all() for moment in sharded.state)
        fed.clear()
        monkeypatch.setattr(session, "run", lambda ops: fed.append(len(ops)) or run(ops))
        state.take_part(session)
        assert sum(fed) == 6 and len(fed) == runs


@pytest.mark.parametrize("workers", [2, 3, 7, 40])
def test_each_number_is_in_one_piece_of_one_worker(workers, monkeypatch):
    monkeypatch.setattr(collectives, "size", lambda: workers)
    counts = {name: np.zeros(np.prod(shape), int) for name, shape in SHAPES.items()}
    for rank in range(workers):
        monkeypatch.setattr(collectives, "rank", lambda rank=rank: rank)
        with tf.Graph().as_default():
            bucket = _Bucket.of(0, variables()[1], 5)
        assert bucket.share * workers >= 26 > (bucket.share - 1) * workers
        for piece in bucket.pieces:
            counts[piece.name][piece.start : piece.start + piece.size] += 1
            assert piece.number == 5 + list(SHAPES).index(piece.name)
    assert all((count == 1).all() for count in counts.values())
