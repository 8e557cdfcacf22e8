"""BERT against golden figures and against `transformers`; ALBERT's tests hold the common code."""

from __future__ import annotations

import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import modeling
from tests.test_modeling import assert_close, make_inputs, run_model

SMALL = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 20,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "initializer_range": 0.1,
}


@pytest.fixture(scope="module")
def golden(shared):
    """The golden figures, the model's outputs under their names, and both sets of variables."""
    folder = shared / "golden" / "bert_tiny"
    figures = np.load(folder / "encoder.npz")
    config = modeling.BertConfig.from_json_file(str(folder / "bert_config.json"))
    inputs = [figures[name] for name in ("input_ids", "input_mask", "segment_ids")]
    with tf.Graph().as_default(), tf.Session() as session:
        model = modeling.BertModel(config, False, *map(tf.constant, inputs))
        variables = tf.trainable_variables()
        modeling.initialize_from_checkpoint(variables, str(folder))
        session.run(tf.global_variables_initializer())
        outputs = session.run(
            {
                "embedding_output": model.get_embedding_output(),
                "first_layer": model.get_all_encoder_layers()[0],
                "sequence_output": model.get_sequence_output(),
                "pooled_output": model.get_pooled_output(),
            }
        )
    stored = tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
    return types.SimpleNamespace(
        figures=figures,
        outputs=outputs,
        shapes={v.op.name: v.shape.as_list() for v in variables},
        stored=stored.get_variable_to_shape_map(),
    )


@pytest.mark.parametrize("name", ["embedding_output", "first_layer", "sequence_output"])
@pytest.mark.each_python
def test_golden_outputs_of_real_tokens(golden, name):
    real = golden.figures["input_mask"] == 1
    assert_close(golden.outputs[name][real], golden.figures[name][real], 1e-5)


@pytest.mark.each_python
def test_golden_pooled_output(golden):
    assert_close(golden.outputs["pooled_output"], golden.figures["pooled_output"], 1e-5)


@pytest.mark.each_python
def test_variables_are_those_of_the_golden_checkpoint(golden):
    assert golden.shapes == {n: s for n, s in golden.stored.items() if n.startswith("bert/")}


def transformers_bert(config, checkpoint):
    """`transformers`' BERT with pretraining heads, and the weights of a checkpoint."""
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    bert = pytest.importorskip("transformers.models.bert.modeling_bert")
    theirs = transformers.BertConfig(**{**config.to_dict(), "hidden_act": "gelu_new"})
    model = transformers.BertForPreTraining(theirs).eval()
    return bert.load_tf_weights_in_bert(model, theirs, checkpoint)


@pytest.mark.parametrize(
    "changes",
    [{}, {"num_hidden_layers": 1, "num_attention_heads": 12, "intermediate_size": 10}],
    ids=["3 layers", "1 layer, 12 heads"],
)
def test_equals_transformers(changes, tmp_path):
    config, inputs = modeling.BertConfig(**{**SMALL, **changes}), make_inputs()
    ours = run_model(config, inputs, save_to=str(tmp_path / "model.ckpt"))
    theirs = transformers_bert(config, str(tmp_path / "model.ckpt")).bert
    torch = pytest.importorskip("torch")
    ids, mask, segments = (torch.from_numpy(array).long() for array in inputs)
    with torch.no_grad():
        outputs = theirs(ids, mask, segments, output_hidden_states=True)
    embedding, *layers = (state.numpy() for state in outputs.hidden_states)
    assert len(ours.layers) == len(layers) == config.num_hidden_layers
    assert_close(ours.embedding, embedding, 1e-4)
    assert_close(ours.layers, layers, 1e-4)
    assert_close(ours.pooled, outputs.pooler_output.numpy(), 1e-4)


def test_one_hot_embeddings_and_einsum_change_no_result():
    config, inputs = modeling.BertConfig(**SMALL), make_inputs()
    plain, other = (
        run_model(config, inputs, use_one_hot_embeddings=on, use_einsum=on) for on in (False, True)
    )
    assert_close(other.embedding, plain.embedding, 1e-6)
    assert_close(other.layers, plain.layers, 1e-5)


def test_operations_have_names_under_their_layers():
    """As lists of bfloat16 operations for Google's BERT expect them."""
    with tf.Graph().as_default() as graph:
        modeling.BertModel(modeling.BertConfig(**SMALL), False, tf.zeros([2, 5], tf.int32))
        names = {operation.name for operation in graph.get_operations()}
    for name in (
        "attention/self/query/MatMul",
        "attention/output/dense/MatMul",
        "output/dense/BiasAdd",
    ):
        assert f"bert/encoder/layer_1/{name}" in names


def test_scope_renames_all_variables():
    with tf.Graph().as_default():
        config = modeling.BertConfig(**SMALL)
        modeling.BertModel(config, False, tf.zeros([2, 5], tf.int32), scope="other")
        names = [v.op.name for v in tf.global_variables()]
    assert "other/encoder/layer_2/output/LayerNorm/beta" in names
    assert all(name.startswith("other/") for name in names)


def test_layers_share_nothing_and_recomputed_ones_have_the_same_names():
    names = []
    for recomputes in (False, True):
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            modeling.Encoder(
                modeling.BertConfig(**SMALL),
                True,
                tf.zeros([2, 5], tf.int32),
                gradient_checkpointing=recomputes,
            )
            names.append([v.op.name for v in tf.trainable_variables()])
    assert names[0] == names[1]
    assert sum("/encoder/" in name for name in names[0]) == 3 * 16
