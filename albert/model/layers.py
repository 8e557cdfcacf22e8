"""The building blocks of the encoder, which do not depend on a configuration.

Letters in shape comments: B batch, S sequence length, F and T lengths of the sequences that attend
and are attended to, E embedding size, H hidden size, N attention heads, D = H / N.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.devices import ops

# Added to the attention scores of masked positions, as in the reference. exp(-10000) is 0 in
# float32 and in bfloat16.
_MASKED_SCORE = -10000.0
_LAYER_NORM_EPSILON = 1e-12


def embedding_lookup(
    input_ids,
    vocab_size,
    embedding_size=128,
    initializer_range=0.02,
    word_embedding_name="word_embeddings",
    use_one_hot_embeddings=False,
) -> tuple[tf.Tensor, tf.Variable]:
    """Makes a table of embeddings, [vocab_size, E]; returns those of ids [B, S], and the table.

    The former are float32 [B, S, E]. `initializer_range` is the standard deviation of the table's
    initializer. `use_one_hot_embeddings`: look up ids by a product with a one-hot matrix.
    """
    assert_rank(input_ids, 2)
    table = _table(word_embedding_name, vocab_size, embedding_size, initializer_range)
    return _look_up(table, input_ids, use_one_hot_embeddings), table


def embedding_postprocessor(
    input_tensor,
    use_token_type=False,
    token_type_ids=None,
    token_type_vocab_size=16,
    token_type_embedding_name="token_type_embeddings",
    use_position_embeddings=True,
    position_embedding_name="position_embeddings",
    initializer_range=0.02,
    max_position_embeddings=512,
    dropout_prob=0.1,
    use_one_hot_embeddings=True,
    *,
    position_ids=None,
) -> tf.Tensor:
    """Adds segment and position embeddings to word embeddings, then applies layer norm and dropout.

    Args:
      input_tensor: float32 [B, S, E], like the result.
      use_token_type: add an embedding of `token_type_ids`, int32 [B, S].
      initializer_range: standard deviation of the tables' initializer.
      use_one_hot_embeddings: look up segments by a product with a one-hot matrix.
      position_ids: int32 [B, S], the position of each token; None for its place in the row.

    Raises:
      UserError (a ValueError): the sequence is longer than `max_position_embeddings`.
      ValueError: `use_token_type` is set, but `token_type_ids` is missing.
    """
    _, seq_length, width = get_shape_list(input_tensor, expected_rank=3)
    if use_token_type and token_type_ids is None:
        raise ValueError("embedding_postprocessor: use_token_type needs token_type_ids")
    total = input_tensor
    if use_token_type:
        types = _table(token_type_embedding_name, token_type_vocab_size, width, initializer_range)
        # As in the reference, a table with only row 0 adds nothing for segment 1.
        one_hot = use_one_hot_embeddings or token_type_vocab_size == 1
        total += _look_up(types, token_type_ids, one_hot)
    if use_position_embeddings:
        if isinstance(seq_length, int) and seq_length > max_position_embeddings:
            raise UserError(
                f"the sequence length {seq_length} is more than the configuration's "
                f"max_position_embeddings {max_position_embeddings}"
            )
        positions = _table(
            position_embedding_name, max_position_embeddings, width, initializer_range
        )
        positions = positions[:seq_length]
        # The gradient of the slice is dense. It has one row per position, not per token, in the
        # norm that clips gradients, with `position_ids` too.
        total += positions if position_ids is None else tf.gather(positions, position_ids)
    site = f"{tf.get_variable_scope().name}/output"
    return dropout(layer_norm(total), dropout_prob, site=site)


def _table(name: str, rows: int, width: int, initializer_range: float) -> tf.Variable:
    return tf.get_variable(name, [rows, width], initializer=create_initializer(initializer_range))


def _look_up(table: tf.Variable, ids: tf.Tensor, one_hot: bool) -> tf.Tensor:
    """Returns rows of `table` [V, E] for `ids` [B, S]: [B, S, E]."""
    if not one_hot:
        return tf.nn.embedding_lookup(table, ids)
    rows, width = get_shape_list(table)
    flat = tf.matmul(tf.one_hot(tf.reshape(ids, [-1]), depth=rows), table)
    return tf.reshape(flat, [*get_shape_list(ids), width])


def attention_layer(
    from_tensor,
    to_tensor,
    attention_mask=None,
    num_attention_heads=1,
    query_act=None,
    key_act=None,
    value_act=None,
    attention_probs_dropout_prob=0.0,
    initializer_range=0.02,
    batch_size=None,
    from_seq_length=None,
    to_seq_length=None,
    use_einsum=True,
) -> tf.Tensor:
    """Applies multi-head attention from one sequence to another or to itself: float32 [B, F, N, D].

    Args:
      from_tensor: float32 [B, F, H], or [B * F, H].
      to_tensor: float32 [B, T, width], or [B * T, width].
      attention_mask: int32 [B, T], 1 where a token may be attended to; None to attend to all.
      query_act, key_act, value_act: activations of the three dense layers; None for no activation.
      initializer_range: standard deviation of the kernels' initializer.
      batch_size, from_seq_length, to_seq_length: B, F and T, required if the tensors are matrices.
      use_einsum: compute dense layers with `tf.einsum` instead of `tf.matmul`.

    Raises a `ValueError` if the tensors' ranks differ, or a required length is missing.
    """
    from_shape, to_shape = (get_shape_list(t, [2, 3]) for t in (from_tensor, to_tensor))
    if len(from_shape) != len(to_shape):
        raise ValueError(
            f"attention_layer: from_tensor has rank {len(from_shape)}, to_tensor {len(to_shape)}"
        )
    if len(from_shape) == 3:
        batch_size, from_seq_length, to_seq_length = *from_shape[:2], to_shape[1]
    elif None in (batch_size, from_seq_length, to_seq_length):
        raise ValueError(
            "attention_layer: matrices need batch_size, from_seq_length and to_seq_length"
        )

    def heads(name: str, x: tf.Tensor, seq_length: int | tf.Tensor, act: Callable | None):
        x = dense(reshape_to_matrix(x), from_shape[-1], initializer_range, use_einsum, name)
        x = act(x) if act else x
        return split_heads(x, [batch_size, seq_length], num_attention_heads)

    query = heads("query", from_tensor, from_seq_length, query_act)
    key = heads("key", to_tensor, to_seq_length, key_act)
    value = heads("value", to_tensor, to_seq_length, value_act)
    bias = 0.0
    if attention_mask is not None:
        bias = attention_bias(tf.reshape(attention_mask, [batch_size, to_seq_length]))
    context = attend(query, key, value, bias, attention_probs_dropout_prob)
    return tf.transpose(context, [0, 2, 1, 3])


def attention_bias(input_mask: tf.Tensor) -> tf.Tensor:
    """Returns a bias [B, 1, 1, T] for scores; it stops attention to masked positions [B, T]."""
    # Dimensions of size 1 broadcast over heads and query positions.
    mask = tf.expand_dims(tf.expand_dims(input_mask, 1), 1)
    return (1.0 - tf.cast(mask, tf.float32)) * _MASKED_SCORE


def block_diagonal_bias(sequence_ids: tf.Tensor) -> tf.Tensor:
    """Returns a bias [B, 1, S, S] for scores; it stops attention between sequences of a row.

    `sequence_ids`, int32 [B, S], has the number of each token's sequence.
    """
    ids = tf.expand_dims(sequence_ids, 1)
    is_same = tf.equal(tf.expand_dims(ids, 3), tf.expand_dims(ids, 2))
    return (1.0 - tf.cast(is_same, tf.float32)) * _MASKED_SCORE


def split_heads(x: tf.Tensor, batch_shape: list, num_attention_heads: int) -> tf.Tensor:
    """Reshapes [B * S, H] to [B, N, S, D], where `batch_shape` is B and S."""
    size = get_shape_list(x)[-1] // num_attention_heads
    x = tf.reshape(x, [*batch_shape, num_attention_heads, size])
    return tf.transpose(x, [0, 2, 1, 3])


def attend(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    bias: tf.Tensor | float,
    dropout_prob: float,
    site: str | None = None,
) -> tf.Tensor:
    """Computes scaled dot-product attention of [B, N, F, D] to [B, N, T, D].

    `bias`, broadcastable to [B, N, F, T], is added to the scores. `site` names the dropout.
    """
    # Scaling the query instead of the scores touches S / D times fewer numbers.
    query = query * (1.0 / math.sqrt(float(get_shape_list(query)[-1])))
    scores = tf.matmul(query, key, transpose_b=True)
    with scores.graph.gradient_override_map({"AddV2": _gradient_of_scores()}):
        scores += bias
    probabilities = tf.nn.softmax(scores, name="attention_probs")
    probabilities = dropout(probabilities, dropout_prob, site=site)
    return tf.matmul(probabilities, value)


@functools.cache
def _gradient_of_scores() -> str:
    """Registers the gradient of adding a mask to scores, and returns its name."""
    # TensorFlow's own gradient makes another pass over all scores where shapes are unknown.
    name = "AddedToScores"
    tf.RegisterGradient(name)(lambda _, gradient: (gradient, None))
    return name


def dense(
    x: tf.Tensor,
    size: int,
    initializer_range: float,
    use_einsum: bool = False,
    name: str = "dense",
    activation: str | Callable | None = None,
) -> tf.Tensor:
    """Applies a kernel [K, `size`] and a bias [`size`] in variable scope `name` to `x` [M, K].

    Then it applies an activation, see `get_activation`.
    """
    with tf.variable_scope(name):
        kernel = tf.get_variable(
            "kernel", [x.shape[-1], size], initializer=create_initializer(initializer_range)
        )
        bias = tf.get_variable("bias", [size], initializer=tf.zeros_initializer())
        product = tf.einsum("mk,kn->mn", x, kernel) if use_einsum else tf.matmul(x, kernel)
        result = tf.nn.bias_add(product, bias)
    function = get_activation(activation)
    return function(result) if function else result


def layer_norm(input_tensor: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """Applies layer normalization over the last axis with epsilon 1e-12 (see `ops.layer_norm`).

    Variables `gamma` and `beta` are in scope `name`; None means "LayerNorm", made unique.
    """
    width = input_tensor.shape[-1]
    with tf.variable_scope(name, default_name="LayerNorm"):
        beta = tf.get_variable("beta", [width], initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", [width], initializer=tf.ones_initializer())
        return ops.layer_norm(input_tensor, gamma, beta, _LAYER_NORM_EPSILON)


def layer_norm_and_dropout(
    input_tensor: tf.Tensor, dropout_prob: float | None, name: str | None = None
) -> tf.Tensor:
    """Applies `layer_norm` in scope `name`, then `dropout`."""
    return dropout(layer_norm(input_tensor, name), dropout_prob)


def dropout(
    input_tensor: tf.Tensor, dropout_prob: float | None, *, site: str | None = None
) -> tf.Tensor:
    """Applies `ops.dropout` to a tensor, or returns it unchanged if the probability is 0 or None.

    Every dropout in a model has its own site, which seeds the mask.
    """
    return ops.dropout(input_tensor, dropout_prob, site) if dropout_prob else input_tensor


def create_initializer(initializer_range: float = 0.02):
    """Returns a truncated normal initializer with the given standard deviation."""
    return tf.truncated_normal_initializer(stddev=initializer_range)


def einsum_via_matmul(input_tensor: tf.Tensor, w: tf.Tensor, num_inner_dims: int) -> tf.Tensor:
    """Contracts the last axes of `input_tensor` with the first axes of `w` in one matrix product.

    Float [<batch axes>, <inner axes>] and [<inner axes>, <outer axes>] become float [<batch axes>,
    <outer axes>]. `num_inner_dims` is the number of axes to contract.
    """
    batch_dims = get_shape_list(input_tensor)[:-num_inner_dims]
    w_dims = get_shape_list(w)
    inner, outer = math.prod(w_dims[:num_inner_dims]), w_dims[num_inner_dims:]
    product = tf.matmul(
        tf.reshape(input_tensor, [-1, inner]), tf.reshape(w, [inner, math.prod(outer)])
    )
    return tf.reshape(product, batch_dims + outer)


def get_shape_list(
    tensor: tf.Tensor, expected_rank: int | Sequence[int] | None = None, name: str | None = None
) -> list:
    """Returns the dimensions, as scalar tensors if not static; `assert_rank` checks the rank."""
    if expected_rank is not None:
        assert_rank(tensor, expected_rank, name)
    static = tensor.shape.as_list()
    if None not in static:
        return static
    dynamic = tf.shape(tensor)
    return [dynamic[i] if size is None else size for i, size in enumerate(static)]


def assert_rank(
    tensor: tf.Tensor, expected_rank: int | Sequence[int], name: str | None = None
) -> None:
    """Raises a `ValueError` if the rank is not `expected_rank`, or not in it."""
    ranks = [expected_rank] if isinstance(expected_rank, int) else list(expected_rank)
    if tensor.shape.ndims not in ranks:
        raise ValueError(
            f"Tensor `{name or tensor.name}` in scope `{tf.get_variable_scope().name}` has "
            f"rank {tensor.shape.ndims} (shape {tensor.shape}), expected {expected_rank}"
        )


def reshape_to_matrix(input_tensor: tf.Tensor) -> tf.Tensor:
    """Reshapes [..., W] to [product of the others, W]; a rank below 2 raises a `ValueError`."""
    if input_tensor.shape.ndims < 2:
        raise ValueError(f"reshape_to_matrix: the shape {input_tensor.shape} has no matrix form")
    if input_tensor.shape.ndims == 2:
        return input_tensor
    return tf.reshape(input_tensor, [-1, input_tensor.shape[-1]])


def reshape_from_matrix(output_tensor: tf.Tensor, orig_shape_list: Sequence) -> tf.Tensor:
    """Reshapes [M, W] to [..., W], with all axes except the last from `orig_shape_list`."""
    if len(orig_shape_list) == 2:
        return output_tensor
    return tf.reshape(output_tensor, [*orig_shape_list[:-1], get_shape_list(output_tensor)[-1]])


def get_activation(activation_string: str | Callable | None) -> Callable | None:
    """Returns the activation function with a name; None for "linear", "" or None.

    "gelu" is the tanh form, as in Google's code; "gelu_erf" is the exact form, which `transformers`
    calls "gelu". Any value that is not a string is returned unchanged. Raises a `UserError`, which
    is a `ValueError`, if no activation has that name.
    """
    if not isinstance(activation_string, str):
        return activation_string
    known = {
        "": None,
        "linear": None,
        "relu": tf.nn.relu,
        "gelu": ops.gelu,
        "gelu_erf": ops.gelu_erf,
        "tanh": tf.tanh,
    }
    name = activation_string.lower()
    if name not in known:
        listed = "gelu, gelu_erf, relu, tanh, linear"
        raise UserError(f"Unsupported activation: {name} (known: {listed})")
    return known[name]
