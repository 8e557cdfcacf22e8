"""Encoders with random weights, in the product and in NumPy."""

import collections
import math
import types
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from albert import modeling

SMALL = {"vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3}
SMALL |= {"intermediate_size": 40, "max_position_embeddings": 20, "initializer_range": 0.1}


def albert(**changes) -> modeling.AlbertConfig:
    return modeling.AlbertConfig(**{**SMALL, "embedding_size": 12, **changes})


def bert(**changes) -> modeling.BertConfig:
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "type_vocab_size": 2}
    return modeling.BertConfig(**{**SMALL, **none, **changes})


def make_inputs(seed: int = 0) -> list[np.ndarray]:
    """Returns ids, mask and segments; the masks have holes in the middle, padding, or neither."""
    rng = np.random.default_rng(seed)
    mask = (rng.random([4, 15]) > 0.3).astype("i4")
    mask[0] = 1
    mask[1:, 0] = 1
    mask[2:, 11:] = 0
    ids = rng.integers(0, SMALL["vocab_size"], mask.shape).astype("i4")
    return [ids, mask, rng.integers(0, 2, mask.shape).astype("i4")]


def load_random_values(session: tf.Session, spread: float = 0.1) -> dict[str, np.ndarray]:
    """Assigns random values to the trainable variables, and returns them by name.

    No bias, beta or gamma keeps a value that would hide a mix-up.
    """
    rng, values = np.random.default_rng(1), {}
    for variable in tf.trainable_variables():
        value = rng.normal(0, spread, variable.shape.as_list())
        values[variable.op.name] = (value + variable.op.name.endswith("gamma")).astype("f4")
    variables = tf.trainable_variables()
    feed = {v.initializer.inputs[1]: values[v.op.name] for v in variables}
    session.run([v.initializer for v in variables], feed)
    return values


def run_with_random_values(build: Callable) -> tuple:
    """Returns what `build` computes with random weights in a new graph, and those weights."""
    with tf.Graph().as_default(), tf.Session() as session:
        outputs = build()
        values = load_random_values(session)
        return session.run(outputs), values


def outputs_of(model: modeling.Encoder) -> dict[str, tf.Tensor | list[tf.Tensor]]:
    return {
        "words": model.get_word_embedding_output(),
        "embedding": model.get_embedding_output(),
        "layers": model.get_all_encoder_layers(),
        "sequence": model.get_sequence_output(),
        "pooled": model.get_pooled_output(),
        "table": model.get_embedding_table(),
    }


def run_model(
    config: modeling.EncoderConfig, inputs: Sequence[np.ndarray], **options
) -> types.SimpleNamespace:
    """Returns the model's outputs with random weights, those weights, and its op types."""
    kinds = collections.Counter()

    def build() -> dict:
        model = modeling.Encoder(config, False, *map(tf.constant, inputs), **options)
        kinds.update(operation.type for operation in tf.get_default_graph().get_operations())
        return outputs_of(model)

    outputs, values = run_with_random_values(build)
    return types.SimpleNamespace(values=values, kinds=kinds, **outputs)


def assert_close(actual, expected, atol: float) -> None:
    np.testing.assert_allclose(np.asarray(actual, "f8"), expected, rtol=0, atol=atol)


# An ALBERT in float64.


def numpy_gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


NUMPY_ACTIVATIONS = {
    "gelu": numpy_gelu,
    "gelu_erf": np.vectorize(lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2)))),
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "linear": lambda x: x,
}


def numpy_layer_norm(x, w, scope):
    centered = x - x.mean(-1, keepdims=True)
    scale = np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-12)
    return centered / scale * w[f"{scope}/gamma"] + w[f"{scope}/beta"]


def numpy_dense(x, w, scope):
    return x @ w[f"{scope}/kernel"] + w[f"{scope}/bias"]


def numpy_attention(x, y, mask, w, scope, heads, acts=(None, None, None)):
    """Returns the context [B, F, H] of states x [B, F, .] that attend to y [B, T, .]."""
    query, key, value = (
        (act or (lambda h: h))(numpy_dense(states.astype("f8"), w, f"{scope}{name}")).reshape(
            *states.shape[:2], heads, -1
        )
        for name, states, act in zip(("query", "key", "value"), (x, y, y), acts, strict=True)
    )
    scores = np.einsum("bfnd,btnd->bnft", query, key) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask[:, None, None, :] == 1, scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    return np.einsum("bnft,btnd->bfnd", shares, value).reshape(*x.shape[:2], -1)


def numpy_block(x, mask, w, scope, config):
    heads = config.num_attention_heads
    context = numpy_attention(x, x, mask, w, f"{scope}/attention_1/self/", heads)
    attention = numpy_dense(context, w, f"{scope}/attention_1/output/dense")
    x = numpy_layer_norm(x + attention, w, f"{scope}/LayerNorm")
    wide = numpy_dense(x, w, f"{scope}/ffn_1/intermediate/dense")
    wide = NUMPY_ACTIVATIONS[config.hidden_act](wide)
    output = numpy_dense(wide, w, f"{scope}/ffn_1/intermediate/output/dense")
    return numpy_layer_norm(x + output, w, f"{scope}/LayerNorm_1")


def numpy_encode(config, values, ids, mask, segments):
    """Returns the embedding output, the states after every block, and the pooled output."""
    w = {name: value.astype("f8") for name, value in values.items()}
    total = w["bert/embeddings/word_embeddings"][ids]
    # Segments without a row in the table add nothing, as with the reference's one-hot product.
    kinds = w["bert/embeddings/token_type_embeddings"]
    total = total + np.concatenate([kinds, np.zeros_like(kinds)])[segments]
    total = total + w["bert/embeddings/position_embeddings"][: ids.shape[1]]
    embedding = state = numpy_layer_norm(total, w, "bert/embeddings/LayerNorm")
    if config.embedding_size != config.hidden_size:
        state = numpy_dense(state, w, "bert/encoder/embedding_hidden_mapping_in")
    layers = []
    for layer in range(config.num_hidden_layers):
        group = layer // (config.num_hidden_layers // config.num_hidden_groups)
        for inner in range(config.inner_group_num):
            scope = f"bert/encoder/transformer/group_{group}/inner_group_{inner}"
            state = numpy_block(state, mask, w, scope, config)
            layers.append(state)
    return embedding, layers, np.tanh(numpy_dense(state[:, 0], w, "bert/pooler/dense"))
