"""Recomputed layers: the same gradients as without, in less memory."""

import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.model.recompute import Recomputation
from albert.modeling import AlbertConfig, AlbertModel
from albert.precision import configuration
from albert.precision.rules import plan
from tests.helpers.encoders import load_random_values
from tests.helpers.sessions import traced_peak

SHAPE = (4, 32)
CONFIG = {"vocab_size": 60, "embedding_size": 16, "hidden_size": 32, "num_hidden_layers": 2}
CONFIG |= {"num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 32}
CONFIG |= {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}


def build_loss(recomputes: bool, **changes) -> tf.Tensor:
    """Returns a loss in the current graph that uses states of several layers."""
    tf.set_random_seed(3)
    ids, mask = (tf.placeholder(tf.int32, SHAPE, name) for name in ("ids", "mask"))
    config = AlbertConfig(**{**CONFIG, **changes})
    model = AlbertModel(config, True, ids, mask, gradient_checkpointing=recomputes)
    last, inner = model.get_sequence_output(), model.get_all_encoder_layers()[-2]
    return tf.reduce_mean(last * tf.sin(inner)) + tf.reduce_mean(model.get_pooled_output())


def build_gradients(loss: tf.Tensor) -> list[tf.Tensor]:
    return [tf.convert_to_tensor(g) for g in tf.gradients(loss, tf.trainable_variables())]


def feed() -> dict[str, np.ndarray]:
    rng = np.random.RandomState(5)
    mask = np.ones(SHAPE, int)
    mask[1:, 20:] = 0
    return {"ids:0": rng.randint(0, 60, SHAPE), "mask:0": mask}


def gradients_and_peak(recomputes: bool, is_resource: bool, **changes) -> tuple[dict, int]:
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("", use_resource=is_resource):
            loss = build_loss(recomputes, **changes)
            gradients = build_gradients(loss)
        names = [v.op.name for v in tf.trainable_variables()]
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        # All gradients are between 0.01 and 1.
        load_random_values(session, spread=0.2)
        values = session.run([loss, *gradients], feed())
        peak = traced_peak(session, tf.add_n([tf.norm(g) for g in gradients]), feed())
        return dict(zip(["loss", *names], values, strict=True)), peak


@pytest.mark.parametrize(
    ("is_resource", "changes", "share"),
    [
        (False, {"num_hidden_layers": 4, "num_hidden_groups": 2}, 0.5),
        pytest.param(True, {"inner_group_num": 2}, 0.8, marks=pytest.mark.slow),
    ],
)
def test_gradients_are_the_same_in_less_memory(is_resource, changes, share):
    """With dropout, whose masks are not kept either. One layer is in memory at a time."""
    expected, most = gradients_and_peak(False, is_resource, **changes)
    assert sum(np.abs(value).max() > 0.01 for value in expected.values()) > 15
    actual, peak = gradients_and_peak(True, is_resource, **changes)
    for name in expected.keys() | actual.keys():
        np.testing.assert_allclose(actual[name], expected[name], rtol=0, atol=1e-5, err_msg=name)
    assert peak < share * most, peak / most


@pytest.mark.slow
def test_gradients_of_shared_weights_are_summed_at_once():
    """Each layer waits until the layer after it has added its gradient to the sum."""
    sizes = {"hidden_size": 128, "intermediate_size": 512}
    summand = 4 * (4 * 128 * 128 + 2 * 128 * 512)
    changes = ({"num_hidden_layers": number, **sizes} for number in (2, 6))
    peaks = [gradients_and_peak(True, True, **change)[1] for change in changes]
    # The states between the layers take 4 x 64 KiB.
    assert peaks[1] - peaks[0] < 4 * (4 * 32 * 128 * 4) + 2 * summand


def test_a_graph_without_seed_is_refused():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="need tf.set_random_seed"):
        Recomputation().apply(tf.sin, tf.ones([2]))


def test_bfloat16_converts_both_forward_passes_alike():
    with tf.Graph().as_default() as graph:
        build_gradients(build_loss(True))
    decisions = plan(graph.as_graph_def(), configuration.load("1")).decisions
    converted = {decision.node: decision.is_converted for decision in decisions}
    again = re.compile(r"gradients/(.*/layer_\d+)/.*?_grad/((?:attention_1|ffn_1|LayerNorm)\w*/.*)")
    pairs = {
        name: f"{actual[1]}/inner_group_0/{actual[2]}"
        for name in converted
        if (actual := again.fullmatch(name)) and not re.search("gradients/|_grad/", actual[2])
    }
    # Six dense layers and two products of attention in each of two layers, and more.
    assert sum(converted[name] for name in pairs) > 2 * (6 + 2)
    assert {n: converted[n] for n in pairs} == {n: converted[o] for n, o in pairs.items()}
