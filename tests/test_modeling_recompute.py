"""Recomputed layers: the same gradients as without, in less memory."""

import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from modeling import AlbertConfig, AlbertModel
from modeling_recompute import Recomputation
from optimization import OptimizerOptions, training_op
from runtime.bf16 import configuration
from runtime.bf16.rules import plan
from tests.helpers.tracing import traced_peak

SHAPE = (4, 32)
CONFIG = {
    "vocab_size": 60,
    "embedding_size": 16,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 32,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}


def build(recomputes: bool, **changes) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """A loss in the current graph that takes states of several layers, and its gradients."""
    tf.set_random_seed(3)
    ids, mask = (tf.placeholder(tf.int32, SHAPE, name) for name in ("ids", "mask"))
    config = AlbertConfig(**{**CONFIG, **changes})
    model = AlbertModel(config, True, ids, mask, gradient_checkpointing=recomputes)
    last, inner = model.get_sequence_output(), model.get_all_encoder_layers()[1]
    loss = tf.reduce_mean(last * tf.sin(inner)) + tf.reduce_mean(model.get_pooled_output())
    gradients = tf.gradients(loss, tf.trainable_variables())
    return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]


def feed() -> dict[str, np.ndarray]:
    rng = np.random.RandomState(5)
    mask = np.ones(SHAPE, int)
    mask[1:, 20:] = 0
    return {"ids:0": rng.randint(0, 60, SHAPE), "mask:0": mask}


def load_values(session: tf.Session) -> None:
    """Weights with which the gradients of all of them are of the size of 0.01 to 1."""
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    for number, variable in enumerate(tf.trainable_variables()):
        values = np.random.RandomState(number).normal(0, 0.2, variable.shape.as_list())
        variable.load(values + variable.op.name.endswith("gamma"), session)


def gradients_by_name(recomputes: bool, is_resource: bool, **changes) -> dict[str, np.ndarray]:
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("", use_resource=is_resource):
            loss, gradients = build(recomputes, **changes)
        names = [v.op.name for v in tf.trainable_variables()]
        load_values(session)
        values = session.run([loss, *gradients], feed())
    return dict(zip(["loss", *names], values, strict=True))


@pytest.mark.parametrize(
    ("is_resource", "changes"),
    [
        (True, {}),
        (False, {"num_hidden_groups": 2}),
        (True, {"num_hidden_layers": 2, "inner_group_num": 2}),
    ],
    ids=["one group", "two groups, reference variables", "inner groups"],
)
def test_gradients_are_those_without(is_resource, changes):
    """With dropout, so that other masks would show."""
    wanted, found = (
        gradients_by_name(recomputes, is_resource, **changes) for recomputes in (False, True)
    )
    assert wanted.keys() == found.keys()
    assert sum(np.abs(value).max() > 0.01 for value in wanted.values()) > 15
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-5, err_msg=name)


def weights_after(recomputes: bool, runs: int) -> dict[str, np.ndarray]:
    """Weights by name, after runs of a step of two batches with other masks each."""
    with tf.Graph().as_default(), tf.Session() as session:
        loss, _ = build(recomputes)
        # With its default an update is nearly the sign of a gradient, be it rounding alone.
        options = OptimizerOptions(0.3, 100, gradient_accumulation_steps=2, epsilon=1.0)
        step = training_op(loss, options)
        load_values(session)
        for _ in range(runs):
            session.run(step, feed())
        return {v.op.name: session.run(v) for v in tf.trainable_variables()}


def test_steps_of_several_batches_are_those_without():
    start, wanted, found = weights_after(False, 0), weights_after(False, 4), weights_after(True, 4)
    assert sum(np.abs(wanted[name] - start[name]).max() > 1e-3 for name in wanted) > 15
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-5, err_msg=name)


def test_the_peak_is_lower():
    """Of four layers, one is in memory at a time; masks of dropout are not kept either."""
    peaks = []
    for recomputes in (False, True):
        with tf.Graph().as_default(), tf.Session() as session:
            _, gradients = build(recomputes)
            load_values(session)
            peaks.append(traced_peak(session, tf.add_n([tf.norm(g) for g in gradients]), feed()))
    assert peaks[1] < 0.5 * peaks[0]


def test_summands_of_shared_weights_do_not_wait_in_memory():
    """Each layer begins when that behind it has added its own to the sum."""
    peaks, summand = [], 4 * (4 * 128 * 128 + 2 * 128 * 512)
    for layers in (2, 12):
        with tf.Graph().as_default(), tf.Session() as session:
            sizes = {"hidden_size": 128, "intermediate_size": 512}
            _, gradients = build(True, num_hidden_layers=layers, **sizes)
            load_values(session)
            peaks.append(traced_peak(session, tf.add_n([tf.norm(g) for g in gradients]), feed()))
    # The states between the layers are 10 x 64 KiB.
    assert peaks[1] - peaks[0] < 10 * (4 * 32 * 128 * 4) + 2 * summand


def test_a_graph_without_seed_is_refused():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="need tf.set_random_seed"):
        Recomputation().apply(tf.sin, tf.ones([2]))


def test_bfloat16_converts_both_forward_passes_alike():
    with tf.Graph().as_default() as graph:
        build(True, num_hidden_layers=2)
    decisions = plan(graph.as_graph_def(), configuration.load("1")).decisions
    converted = {decision.node: decision.is_converted for decision in decisions}
    again = re.compile(r"gradients/(.*/layer_\d+)/.*?_grad/((?:attention_1|ffn_1|LayerNorm)\w*/.*)")
    pairs = {
        name: f"{found[1]}/inner_group_0/{found[2]}"
        for name in converted
        if (found := again.fullmatch(name)) and not re.search("gradients/|_grad/", found[2])
    }
    # Six dense layers and two products of attention in each of two layers, and what is between.
    assert sum(converted[name] for name in pairs) > 2 * (6 + 2)
    assert {n: converted[n] for n in pairs} == {n: converted[o] for n, o in pairs.items()}
