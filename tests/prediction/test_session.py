"""A session that predicts: the weights of its fused operations, in bfloat16."""

import json
import os
import pathlib

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


@pytest.fixture(autouse=True)
def needs_dense():
    if not onednn.has_dense():
        pytest.skip("this TensorFlow has no fused dense layers in bfloat16 here")


def sessions(config, precision):
    """Returns the model, and its session in float32 and in low precision."""
    plain = make_predict_fn(config, head, ModelOptions())
    low = conversion.convert(plain, precision, device.kind())
    return plain, *(PredictSession(model_fn, placeholders(SPECS)) for model_fn in (plain, low))


def outputs(session):
    return next(session.run_all(iter([VALUES])))[0]["states"]


def dense_layers(session):
    graph = session._session.graph
    return [operation for operation in graph.get_operations() if operation.type == onednn.DENSE]


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
    plain, exact, rounded = sessions(config, configuration.load("1"))
    paths = [write_checkpoint(tmp_path / str(seed), plain, seed) for seed in (1, 2)]
    for path in (*paths, paths[0]):
        for session in (exact, rounded):
            session.load(path)
        expected, actual = map(outputs, (exact, rounded))
        np.testing.assert_allclose(actual, expected, rtol=0, atol=0.06)
        assert (actual != expected).any()
        np.testing.assert_array_equal(outputs(rounded), actual)
    assert len(dense_layers(rounded)) == number


def test_the_list_decides_the_precision_of_dense_layers(tmp_path):
    """It may have any path. Its exceptions name products. Layers in float32 keep weights, too."""
    content = json.loads(pathlib.Path(configuration.SHIPPED).read_text())

    def with_exceptions(*exceptions):
        values = {**content, "non_convertible_exceptions": list(exceptions)}
        return sessions(albert(), configuration.from_dict(values, "own.json"))

    for exceptions, converted in (([], 20), ([[".*/layer_1/.*", "MatMul"]], 14), ([[".*", ""]], 0)):
        plain, exact, rounded = with_exceptions(*exceptions)
        dtypes = [layer.outputs[0].dtype for layer in dense_layers(rounded)]
        assert (len(dtypes), dtypes.count(tf.bfloat16)) == (20, converted)
    # Those of the last list.
    for seed in (1, 2):
        checkpoint = write_checkpoint(tmp_path / str(seed), plain, seed)
        results = []
        for session in (exact, rounded):
            session.load(checkpoint)
            results.append(outputs(session))
        np.testing.assert_allclose(*results, rtol=0, atol=1e-5)
    in_float16 = configuration.load("1")._replace(dtype=tf.float16)
    # "basic" does not name the sum with the bias.
    for precision in (in_float16, configuration.load("basic")):
        assert not dense_layers(sessions(albert(), precision)[-1])


# Two more copies of the weights of a block, in bfloat16.
COPIES = 2 * 2 * (4 * 24 * 24 + 2 * 24 * 40)


@pytest.mark.parametrize(
    ("config", "most", "has_copies"),
    [(albert(), COPIES, True), (albert(), COPIES - 1, False), (bert(), 0, True)],
)
def test_only_layers_that_share_weights_have_too_many_copies(monkeypatch, config, most, has_copies):
    """Then every run reorders the weights."""
    monkeypatch.setattr(weights, "_MOST_BYTES", most)
    *_, rounded = sessions(config, configuration.load("1"))
    kept = {layer.get_attr("is_filter_const") for layer in dense_layers(rounded)}
    assert kept == {has_copies}
