"""The reference's functions of SQuAD that build inputs and models, as its scripts call them."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import squad_utils
from encoder_task import ModelOptions, make_model_fn
from modeling import AlbertConfig
from optimization import OptimizerOptions
from runtime import estimators
from runtime.data.order import shuffled_numbers
from runtime.data.tf_example import serialize
from squad.head import make_v1_head

TRAIN, PREDICT = estimators.ModeKeys.TRAIN, estimators.ModeKeys.PREDICT
LENGTH = 64
SEQUENCES = ("input_ids", "input_mask", "segment_ids")
NUMBERS = ("unique_ids", "start_positions", "end_positions", "is_impossible")


def make_record(number, used=20):
    """A feature whose unique id is its number."""
    mask = [1] * used + [0] * (LENGTH - used)
    return serialize(
        {
            "unique_ids": [number],
            "input_ids": [number + 1 if m else 0 for m in mask],
            "input_mask": mask,
            "segment_ids": [0] * LENGTH,
            "p_mask": [1 - m for m in mask],
            "start_positions": [number % 50],
            "end_positions": [number % 50 + 3],
            "is_impossible": [number % 2],
        }
    )


@pytest.fixture
def write(tmp_path):
    def write(count, name="records"):
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            for number in range(count):
                writer.write(make_record(number))
        return str(tmp_path / name)

    return write


class TestInputFnBuilder:
    """How batches are made is the matter of tests/runtime/data/test_batches.py."""

    @staticmethod
    def batches(path, count, training, bsz, drop=False, v2=False, **order):
        input_fn = squad_utils.input_fn_builder(
            path, LENGTH, training, drop, False, bsz, v2, **order
        )
        result = []
        with tf.Graph().as_default(), tf.Session() as session:
            batch = tf.data.make_one_shot_iterator(input_fn({})).get_next()
            assert all(tensor.dtype == tf.int32 for tensor in batch.values())
            with contextlib.suppress(tf.errors.OutOfRangeError):
                while len(result) < count:
                    result.append(session.run(batch))
        return result

    @staticmethod
    def ids(got):
        return [batch["unique_ids"].tolist() for batch in got]

    @pytest.mark.parametrize(
        ("drop", "expected"),
        [(False, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]), (True, [[0, 1, 2, 3], [4, 5, 6, 7]])],
        ids=["kept", "dropped"],
    )
    def test_file_order_once(self, write, drop, expected):
        got = self.batches(write(11), 100, False, 4, drop)
        assert self.ids(got) == expected
        assert got[0].keys() == {"unique_ids", *SEQUENCES}

    def test_one_file_in_a_list_and_several(self, write):
        one, other = write(5, "one"), write(2, "other")
        assert self.ids(self.batches([one], 9, False, 2)) == [[0, 1], [2, 3], [4]]
        assert self.ids(self.batches([one, other], 9, False, 4)) == [[0, 1, 2, 3], [4, 0, 1]]

    def test_p_mask_for_version_2(self, write):
        (batch,) = self.batches(write(1), 9, False, 1, v2=True)
        assert batch["p_mask"].tolist() == [[0] * 20 + [1] * 44]

    def test_training(self, write):
        """All fields of an example, in the order of a seed, also of a worker that goes on."""
        path = write(20)
        for v2 in (False, True):
            (batch,) = self.batches(path, 1, True, 5, drop=True, v2=v2, seed=7)
            assert batch.keys() == {*NUMBERS, *SEQUENCES, *(["p_mask"] if v2 else [])}
            numbers = batch["unique_ids"]
            assert numbers.tolist() == shuffled_numbers(20, 5, 7, 0).tolist()
            assert (batch["input_ids"][:, 0] == numbers + 1).all()
            assert (batch["start_positions"] == numbers % 50).all()
            assert (batch["end_positions"] == numbers % 50 + 3).all()
            assert (batch["is_impossible"] == numbers % 2).all()
        (batch,) = self.batches(path, 1, True, 5, start_batch=4, rank=1, num_workers=3)
        assert batch["unique_ids"].tolist() == shuffled_numbers(20, 5, 12345, 5).tolist()

    def test_padding(self, write):
        path = write(5)
        got = self.batches(path, 9, False, 4, v2=True, pad_remainder=True, trim_padding=True)
        assert self.ids(got) == [[0, 1, 2, 3], [4, 4, 4, 4]]
        assert [got[0][key].shape for key in (*SEQUENCES, "p_mask")] == [(4, 32)] * 4

    @pytest.mark.parametrize("is_training", [True, False])
    def test_every_shape_is_static_where_batches_are_filled_up(self, write, is_training):
        input_fn = squad_utils.input_fn_builder(
            write(5), LENGTH, is_training, False, False, 4, False, pad_remainder=True
        )
        with tf.Graph().as_default():
            shapes = tf.data.get_output_shapes(input_fn({}))
        assert shapes["input_ids"] == [4, LENGTH]
        assert all(shape.is_fully_defined() for shape in shapes.values())

    def test_tpu_is_refused(self):
        with pytest.raises(ValueError, match="TPU"):
            squad_utils.input_fn_builder("f", LENGTH, True, True, True, 8, False)


CONFIG = AlbertConfig(
    vocab_size=60,
    embedding_size=8,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=64,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def make_batch():
    rng = np.random.RandomState(5)
    mask = np.arange(32) < np.array([[32], [20], [9], [27]])
    return {
        "input_ids": rng.randint(1, 60, mask.shape) * mask,
        "input_mask": mask.astype(int),
        "segment_ids": np.zeros(mask.shape, int),
        "start_positions": np.array([7, 19, 5, 0]),
        "end_positions": np.array([15, 19, 8, 0]),
        "unique_ids": np.arange(100, 104),
        "is_impossible": np.array([0, 0, 0, 1]),
    }


def of_the_reference(use_tpu=False, hub_module=None, init_checkpoint=None, **more):
    return squad_utils.v1_model_fn_builder(
        CONFIG,
        init_checkpoint,
        learning_rate=0.01,
        num_train_steps=10,
        num_warmup_steps=2,
        use_tpu=use_tpu,
        use_one_hot_embeddings=False,
        use_einsum=False,
        hub_module=hub_module,
        **more,
    )


def tensors():
    return {key: tf.constant(value, tf.int32) for key, value in make_batch().items()}


def losses_of(model_fn):
    """Of three steps."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(3)
        spec = model_fn(tensors(), None, TRAIN, {})
        session.run(tf.global_variables_initializer())
        return [session.run([spec.loss, spec.train_op])[0] for _ in range(3)]


class TestModelFn:
    @pytest.mark.parametrize("mask", [True, False])
    def test_it_is_the_model_of_the_programs(self, mask):
        """With what the reference's arguments say, and more options of the optimizer."""
        found = losses_of(
            of_the_reference(mask_padding_in_loss=mask, optimizer_options={"optimizer": "lamb"})
        )
        options = ModelOptions(OptimizerOptions(0.01, 10, 2, "lamb"))
        expected = losses_of(make_model_fn(CONFIG, make_v1_head(mask), options))
        assert found == pytest.approx(expected, rel=1e-6)
        assert found[-1] != pytest.approx(found[0], rel=1e-4)

    def test_by_default_the_loss_is_of_all_positions(self):
        default, unmasked, masked = (
            losses_of(of_the_reference(**options))
            for options in (
                {},
                {"mask_padding_in_loss": False},
                {"mask_padding_in_loss": True},
            )
        )
        assert default == pytest.approx(unmasked, rel=1e-6)
        assert default[0] > masked[0] + 0.1

    def test_it_starts_from_the_checkpoint(self, tmp_path):
        """Where the reference says so: the second argument."""
        name = "bert/pooler/dense/bias"
        with tf.Graph().as_default(), tf.Session() as session:
            of_the_reference()(tensors(), None, PREDICT, {})
            session.run(tf.global_variables_initializer())
            (bias,) = (v for v in tf.trainable_variables() if v.op.name == name)
            bias.load(np.arange(16), session)
            path = tf.train.Saver().save(session, str(tmp_path / "model.ckpt"))
        with tf.Graph().as_default(), tf.Session() as session:
            of_the_reference(init_checkpoint=path)(tensors(), None, TRAIN, {})
            session.run(tf.global_variables_initializer())
            (bias,) = (v for v in tf.trainable_variables() if v.op.name == name)
            assert session.run(bias).tolist() == list(range(16))

    def test_create_v1_model(self):
        """Gives the scores that the model predicts."""

        def scores():
            features = tensors()
            inputs = [features[key] for key in SEQUENCES]
            return squad_utils.create_v1_model(CONFIG, False, *inputs, False, False, None)

        def predictions():
            spec = of_the_reference()(tensors(), None, PREDICT, {})
            return [spec.predictions[f"{name}_log_prob"] for name in ("start", "end")]

        values = []
        for build in (scores, predictions):
            with tf.Graph().as_default(), tf.Session() as session:
                outputs, rng = build(), np.random.RandomState(1)
                for variable in sorted(tf.trainable_variables(), key=lambda v: v.name):
                    variable.load(0.1 * rng.standard_normal(variable.shape), session)
                values.append(session.run(list(outputs)))
        np.testing.assert_allclose(*values, atol=1e-6)
        assert np.shape(values[0]) == (2, 4, 32) and np.std(values[0]) > 0.01

    def test_hub_modules_are_refused(self):
        with pytest.raises(ValueError, match="init_checkpoint"):
            of_the_reference(hub_module="https://tfhub.dev/google/albert_base/2")

    def test_tpu_is_refused(self):
        with pytest.raises(ValueError, match="TPU"):
            of_the_reference(use_tpu=True)


@pytest.mark.skipif(
    not hasattr(tf, "estimator"), reason=f"TensorFlow {tf.__version__} has no TPUEstimator"
)
def test_estimator_of_the_reference_takes_the_model_fn(tmp_path):
    """Scripts for the reference use `TPUEstimator`, off the TPU too."""
    batch = make_batch()

    def input_fn(params):
        return tf.data.Dataset.from_tensors(
            {key: tf.constant(value, tf.int32) for key, value in batch.items()}
        ).repeat()

    estimator = tf.estimator.tpu.TPUEstimator(
        use_tpu=False,
        model_fn=of_the_reference(),
        config=tf.estimator.tpu.RunConfig(model_dir=str(tmp_path), save_summary_steps=1),
        train_batch_size=4,
        predict_batch_size=4,
    )
    estimator.train(input_fn, max_steps=2)
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-2")
    first = next(estimator.predict(input_fn))
    assert first.keys() == {"unique_ids", "start_log_prob", "end_log_prob"}
    assert first["start_log_prob"].shape == (32,)
