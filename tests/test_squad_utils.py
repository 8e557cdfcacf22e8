"""The reference's functions of SQuAD that build inputs and models, as its scripts call them.

Its models are held against its figures in `tests/squad/test_head.py` and `test_head_v2.py`.
"""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import squad_utils
from doors import common
from encoder_task import ModelOptions
from optimization import OptimizerOptions
from runtime import estimators
from runtime.data.order import shuffled_numbers
from runtime.data.tf_example import serialize
from squad.head_v2 import outside_answers
from tests.helpers.files import write_records
from tests.helpers.sessions import quick_session
from tests.helpers.squad_head import CONFIG, NUMBERS, SEQUENCES, make_batch

PREDICT = estimators.ModeKeys.PREDICT
LENGTH = 64


@pytest.fixture
def path(tmp_path):
    """A file of 11 features, whose unique ids are their numbers."""
    mask = [1] * 20 + [0] * (LENGTH - 20)

    def record(number):
        sequences = {"input_ids": [(number + 1) * m for m in mask], "input_mask": mask}
        sequences |= {"segment_ids": [0] * LENGTH, "p_mask": [1 - m for m in mask]}
        values = (number, number + 20, number + 23, number % 2)
        numbers = {key: [value] for key, value in zip(NUMBERS, values, strict=True)}
        return serialize({**sequences, **numbers})

    return write_records(tmp_path / "records", map(record, range(11)))


class TestInputFnBuilder:
    """How batches are made is the matter of tests/runtime/data/test_batches.py."""

    @staticmethod
    def batches(path, training, bsz, drop=False, v2=False, **order):
        input_fn = squad_utils.input_fn_builder(
            path, LENGTH, training, drop, False, bsz, v2, **order
        )
        result = []
        with tf.Graph().as_default(), tf.Session() as session:
            batch = tf.data.make_one_shot_iterator(input_fn({})).get_next()
            assert all(tensor.dtype == tf.int32 for tensor in batch.values())
            with contextlib.suppress(tf.errors.OutOfRangeError):
                while len(result) < 3:
                    result.append(session.run(batch))
        return result, [batch["unique_ids"].tolist() for batch in result]

    def test_file_order_once(self, path):
        """Also of several files; with batches filled up or cut, or without the rest."""
        expected = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
        got, ids = self.batches(path, False, 4)
        assert ids == expected and got[0].keys() == {"unique_ids", *SEQUENCES}
        assert self.batches([path], False, 4, drop=True)[1] == expected[:2]
        got, ids = self.batches([path, path], False, 10, v2=True)
        assert ids[1:] == [[10, *range(9)], [9, 10]]
        assert got[2]["p_mask"].tolist() == [[0] * 20 + [1] * 44] * 2
        got, ids = self.batches(path, False, 4, v2=True, pad_remainder=True, trim_padding=True)
        assert ids == [*expected[:2], [8, 9, 10, 10]]
        assert [got[0][key].shape for key in (*SEQUENCES, "p_mask")] == [(4, 32)] * 4

    def test_training(self, path):
        """All fields of an example, in the order of a seed, also of a worker that goes on."""
        for v2 in (False, True):
            (batch, *_), _ = self.batches(path, True, 5, drop=True, v2=v2, seed=7)
            assert batch.keys() == {*NUMBERS, *SEQUENCES, *(["p_mask"] if v2 else [])}
            numbers = batch["unique_ids"]
            assert numbers.tolist() == shuffled_numbers(11, 5, 7, 0).tolist()
            assert (batch["input_ids"][:, 0] == numbers + 1).all()
            assert (batch["start_positions"] == numbers + 20).all()
            assert (batch["end_positions"] == numbers + 23).all()
            assert (batch["is_impossible"] == numbers % 2).all()
        _, (ids, *_) = self.batches(path, True, 5, start_batch=4, rank=1, num_workers=3)
        assert ids == shuffled_numbers(11, 5, 12345, 5).tolist()


def v1_model_fn(**more):
    """Of the reference's arguments, by place."""
    arguments = (CONFIG, "model", 0.25, 10, 2, False, True, True, None)
    return squad_utils.v1_model_fn_builder(*arguments, **more)


def v2_model_fn(**more):
    arguments = (CONFIG, "model", 0.25, 10, 2, False, True, 32, 3, 4, 0.5, None)
    return squad_utils.v2_model_fn_builder(*arguments, **more)


def tensors():
    return {key: tf.constant(value, tf.int32) for key, value in make_batch(32).items()}


class TestModelFn:
    def test_arguments_reach_the_model(self, monkeypatch):
        """And more options of the optimizer."""
        built = []
        monkeypatch.setattr(common, "make_model_fn", lambda *parts: built.append(parts))
        optimizer = OptimizerOptions(0.25, 10, 2, "lamb")
        expected = ModelOptions(optimizer, "model", use_one_hot_embeddings=True, use_einsum=True)
        for build in (v1_model_fn, v2_model_fn):
            build(optimizer_options={"optimizer": "lamb"})
            config, _, options = built.pop()
            assert config is CONFIG and options == expected

    @staticmethod
    def outputs_of(create, *model_fns):
        """The predictions of models, and what `create` gives of the features, of equal weights."""
        with tf.Graph().as_default(), quick_session() as session:
            tf.set_random_seed(3)
            features, found = tensors(), []
            for model_fn in model_fns:
                with tf.variable_scope("", reuse=tf.AUTO_REUSE):
                    found.append(model_fn(features, None, PREDICT, {}).predictions)
            with tf.variable_scope("", reuse=True):
                created = create(features, *(features[key] for key in SEQUENCES))
            session.run(tf.global_variables_initializer())
            return session.run([created, *found])

    def test_create_v1_model(self):
        """It gives the scores that the model predicts, to padding as well; or to that none."""
        scores, masked, unmasked = self.outputs_of(
            lambda _, *inputs: squad_utils.create_v1_model(
                CONFIG, False, *inputs, True, True, None
            ),
            v1_model_fn(mask_padding_in_loss=True),
            v1_model_fn(),
        )
        real = make_batch(32)["input_mask"] == 1
        for name, expected in zip(("start_log_prob", "end_log_prob"), scores, strict=True):
            assert expected.shape == (4, 32) and np.std(expected) > 0.01
            np.testing.assert_allclose(unmasked[name], expected, atol=1e-6)
            np.testing.assert_allclose(masked[name][real], expected[real], atol=1e-6)
            assert masked[name][~real].max() < -1000

    def test_create_v2_model(self):
        def create(features, *inputs):
            places = {"p_mask": outside_answers(features)}
            arguments = (True, places, 32, 3, 4, 0.5, None)
            return squad_utils.create_v2_model(CONFIG, False, *inputs, *arguments)

        outputs, predictions = self.outputs_of(create, v2_model_fn())
        assert predictions.keys() == {*outputs, "unique_ids"}
        for key, expected in outputs.items():
            np.testing.assert_allclose(predictions[key], expected, atol=1e-6)
        assert outputs["end_top_index"].shape == (4, 3 * 4)


@pytest.mark.skipif(
    not hasattr(tf, "estimator"), reason=f"TensorFlow {tf.__version__} has no TPUEstimator"
)
def test_estimator_of_the_reference_takes_the_model_fn(tmp_path):
    """Scripts for the reference use `TPUEstimator`, off the TPU too."""

    def input_fn(params):
        return tf.data.Dataset.from_tensors(tensors()).repeat()

    arguments = (CONFIG, None, 0.01, 10, 2, False, False, False, None)
    estimator = tf.estimator.tpu.TPUEstimator(
        use_tpu=False,
        model_fn=squad_utils.v1_model_fn_builder(*arguments),
        config=tf.estimator.tpu.RunConfig(model_dir=str(tmp_path)),
        train_batch_size=4,
        predict_batch_size=4,
    )
    estimator.train(input_fn, max_steps=2)
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-2")
    first = next(estimator.predict(input_fn))
    assert first.keys() == {"unique_ids", "start_log_prob", "end_log_prob"}
    assert first["start_log_prob"].shape == (32,)
