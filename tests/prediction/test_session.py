"""A session that predicts: the weights of its fused operations, in bfloat16."""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.devices import device, onednn
from albert.precision import configuration, conversion, weights
from albert.prediction.model import HeadOutput, ModelOptions, make_predict_fn
from albert.prediction.session import PredictSession, placeholders
from tests.helpers.encoders import albert, bert, load_random_values, make_inputs

SPECS = {name: tf.TensorSpec([None, None], tf.int32) for name in ("ids", "mask", "segments")}
NAMES = dict(zip(("input_ids", "input_mask", "segment_ids"), SPECS, strict=True))
VALUES = dict(zip(SPECS, make_inputs(), strict=True))


def head(encode, features, is_training):
    model = encode({name: features[short] for name, short in NAMES.items()})
    return HeadOutput(None, {"states": model.get_sequence_output()})


def write_checkpoint(path, model_fn, seed):
    with tf.Graph().as_default(), tf.Session() as session:
        model_fn(placeholders(SPECS)()[0])
        load_random_values(session, seed)
        return tf.train.Saver().save(session, os.fspath(path))


@pytest.mark.parametrize(
    ("config", "number"),
    # Three blocks with six layers each, the pooler, and in ALBERT the layer before the first block.
    [
        (albert(hidden_act="gelu"), 20),
        (bert(hidden_act="gelu_erf"), 19),
        (bert(hidden_act=tf.nn.elu), 16),
    ],
    ids=["gelu", "gelu_erf", "a function"],
)
def test_a_session_in_bfloat16_uses_the_weights_of_each_checkpoint(tmp_path, config, number):
    """The operations of dense layers keep the first weights of their TensorFlow session."""
    if not onednn.has_dense():
        pytest.skip("this TensorFlow has no fused dense layers in bfloat16 here")
    plain = make_predict_fn(config, head, ModelOptions())
    low = conversion.convert(plain, configuration.load("1"), device.kind())
    exact, rounded = (PredictSession(model_fn, placeholders(SPECS)) for model_fn in (plain, low))
    paths = [write_checkpoint(tmp_path / str(seed), plain, seed) for seed in (1, 2)]
    for path in (*paths, paths[0]):
        for session in (exact, rounded):
            session.load(path)
        expected, actual = (one.run_all(VALUES)[0]["states"] for one in (exact, rounded))
        np.testing.assert_allclose(actual, expected, rtol=0, atol=0.06)
        assert (actual != expected).any()
        again, _ = rounded.run_all(VALUES)
        np.testing.assert_array_equal(again["states"], actual)
    types = [operation.type for operation in rounded._session.graph.get_operations()]
    assert types.count(onednn.DENSE) == number


@pytest.mark.parametrize(("config", "has_copies"), [(albert(), False), (bert(), True)])
def test_only_layers_that_share_weights_have_too_many_copies_of_them(
    monkeypatch, config, has_copies
):
    """Then every run reorders the weights."""
    if not onednn.has_dense():
        pytest.skip("this TensorFlow has no fused dense layers in bfloat16 here")
    monkeypatch.setattr(weights, "_MOST_BYTES", 0)
    plain = make_predict_fn(config, head, ModelOptions())
    low = conversion.convert(plain, configuration.load("1"), device.kind())
    graph = PredictSession(low, placeholders(SPECS))._session.graph
    layers = [one for one in graph.get_operations() if one.type == onednn.DENSE]
    assert {layer.get_attr("is_filter_const") for layer in layers} == {has_copies}
