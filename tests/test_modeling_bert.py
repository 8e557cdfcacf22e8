"""BERT against golden figures and against `transformers`; ALBERT's tests hold the common code."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

import modeling
from tests.helpers.encoders import (
    assert_close,
    bert,
    make_inputs,
    run_golden,
    run_model,
    run_transformers,
)


@pytest.mark.each_python
def test_golden(shared):
    """Outputs of real tokens, and names and shapes of variables."""
    golden = run_golden(shared / "golden" / "bert_tiny")
    figures, real = golden.figures, golden.figures["input_mask"] == 1
    assert_close(golden.embedding[real], figures["embedding_output"][real], 1e-5)
    assert_close(golden.layers[0][real], figures["first_layer"][real], 1e-5)
    assert_close(golden.sequence[real], figures["sequence_output"][real], 1e-5)
    assert_close(golden.pooled, figures["pooled_output"], 1e-5)
    assert golden.shapes == {n: s for n, s in golden.stored.items() if n.startswith("bert/")}


def test_equals_transformers(tmp_path):
    config, inputs = bert(num_attention_heads=12, intermediate_size=10), make_inputs()
    ours = run_model(config, inputs, save_to=tmp_path / "model.ckpt")
    (embedding, *layers), pooled = run_transformers(config, tmp_path / "model.ckpt", inputs)
    assert len(ours.layers) == len(layers) == config.num_hidden_layers
    assert_close(ours.embedding, embedding, 1e-4)
    assert_close(ours.layers, layers, 1e-4)
    assert_close(ours.pooled, pooled, 1e-4)


def test_layers_share_nothing_and_recomputed_ones_have_the_same_names():
    """All in the scope that is asked for. Operations are under their layers, as lists of bfloat16
    operations for Google's BERT expect them."""
    with tf.Graph().as_default() as graph:
        ids = tf.zeros([2, 5], tf.int32)
        modeling.BertModel(bert(), False, ids, scope="other")
        names = [v.op.name for v in tf.global_variables()]
        for part in ("attention/self/query/MatMul", "attention/output/dense/MatMul"):
            assert graph.get_operation_by_name(f"other/encoder/layer_1/{part}")
        assert graph.get_operation_by_name("other/encoder/layer_1/output/dense/BiasAdd")
    assert all(name.startswith("other/") for name in names)
    assert sum("/encoder/" in name for name in names) == 3 * 16
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        ids, recomputing = tf.zeros([2, 5], tf.int32), {"gradient_checkpointing": True}
        modeling.Encoder(bert(), True, ids, scope="other", **recomputing)
        assert [v.op.name for v in tf.trainable_variables()] == names
