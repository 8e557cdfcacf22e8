"""The encoders ALBERT (https://arxiv.org/abs/1909.11942) and BERT (https://arxiv.org/abs/1810.04805).

This module does not depend on tasks, files or devices. Variables have the names of the official
checkpoints, such as `bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/dense/bias`
in ALBERT and `bert/encoder/layer_0/intermediate/dense/bias` in BERT.

Letters in shape comments: B batch, S sequence length, E embedding size, H hidden size, N attention
heads, D = H / N, I intermediate size. Inside the encoder, activations are matrices of shape
[B * S, H], so that every dense layer, and its gradient, is one matrix product on every device.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from albert.checkpoints.initialization import (  # noqa: F401  The reference has them here.
    get_assignment_map_from_checkpoint,
    initialize_from_checkpoint,
)
from albert.core.errors import UserError
from albert.devices.ops import gelu  # noqa: F401  The reference has it here.
from albert.model.config import AlbertConfig, BertConfig, EncoderConfig, read_config  # noqa: F401
from albert.model.layers import (  # noqa: F401  The reference has all of them here.
    assert_rank,
    attend,
    attention_bias,
    attention_layer,
    create_initializer,
    dense,
    dropout,
    einsum_via_matmul,
    embedding_lookup,
    embedding_postprocessor,
    get_activation,
    get_shape_list,
    layer_norm,
    layer_norm_and_dropout,
    reshape_from_matrix,
    reshape_to_matrix,
    split_heads,
)
from albert.model.recompute import Recomputation
from albert.model.token_rows import PaddedRows, UnpaddedRows


class Packing(NamedTuple):
    """The sequences of rows that hold several of them (https://arxiv.org/abs/2107.02027)."""

    # int32 [B, S], the number, from 1, of each token's sequence in its row; 0 for padding. A token
    # attends only to the tokens of its sequence (`block_diagonal_bias` in `model/layers.py`).
    sequence_ids: tf.Tensor
    # int32 [B, S], the position of each token in its sequence.
    position_ids: tf.Tensor
    # The greatest number of sequences in a row, K.
    num_sequences: int


class Encoder:
    """An encoder with its pooler in the current graph; the configuration selects ALBERT or BERT.

    ALBERT and BERT have the same layers, but their variables have different names. In ALBERT,
    groups of layers share weights, and the embeddings may have a different width than the encoder.

        >>> config = AlbertConfig(vocab_size=100, hidden_size=32, num_attention_heads=4)
        >>> with tf.Graph().as_default():
        ...     ids = tf.constant([[2, 7, 8, 3], [2, 9, 3, 0]])
        ...     encoder = Encoder(config, False, ids, input_mask=tf.sign(ids))
        ...     print(encoder.get_sequence_output().shape, encoder.get_pooled_output().shape)
        (2, 4, 32) (2, 32)
    """

    def __init__(
        self,
        config,
        is_training,
        input_ids,
        input_mask=None,
        token_type_ids=None,
        use_one_hot_embeddings=False,
        use_einsum=True,
        scope=None,
        gradient_checkpointing=False,
        remove_padding=False,
        positions=None,
        packing=None,
    ):
        """Builds the graph.

        Args:
          is_training: whether dropout is applied.
          input_ids: int32 [B, S].
          input_mask: int32 [B, S], 1 where a token may be attended to, 0 elsewhere (anywhere, not
            only at the end); None for all ones.
          token_type_ids: int32 [B, S] segment ids; None for all zeros.
          use_one_hot_embeddings: look up words by a product with a one-hot matrix.
          use_einsum: compute dense layers with `tf.einsum` instead of `tf.matmul`.
          scope: name of the variable scope, "bert" if None.
          gradient_checkpointing: compute each block again in the backward pass. This saves memory
            and takes a third more time. The graph needs a seed.
          remove_padding: skip positions outside `input_mask` in the layers. States of real tokens
            stay the same and the other states are 0; dropout masks differ.
          positions: int32 [B, P], or [1, P] for all sequences: real tokens, beginning with the
            first. The last layer computes only their states, [B, P, H]; None for all tokens.
          packing: a `Packing`, for rows of several sequences; None for rows of one sequence. It
            needs `positions`, which begin with the first tokens of the K sequences, and excludes
            `remove_padding`.

        Raises a `UserError` if the configuration, the sequence length, or the combination with
        `packing` is impossible.
        """
        config.validate()
        if packing and (remove_padding or positions is None):
            raise UserError("packing needs positions, and works only with remove_padding=False")
        rates = config.hidden_dropout_prob, config.attention_probs_dropout_prob
        hidden, attention = rates if is_training else (0.0, 0.0)
        building = _BuildOptions(
            config, hidden, attention, use_einsum, gradient_checkpointing, remove_padding, packing
        )
        batch_size, seq_length = get_shape_list(input_ids, expected_rank=2)
        if input_mask is None:
            input_mask = tf.ones([batch_size, seq_length], tf.int32)
        if token_type_ids is None:
            token_type_ids = tf.zeros([batch_size, seq_length], tf.int32)
        if positions is not None:
            positions = tf.convert_to_tensor(positions, tf.int32)

        if is_training:
            # Dropout depends on the step. Making it here keeps it out of the model's scopes.
            tf.train.get_or_create_global_step()
        with tf.variable_scope(scope, default_name="bert"):
            with tf.variable_scope("embeddings"):
                self.word_embedding_output, self.output_embedding_table = embedding_lookup(
                    input_ids,
                    config.vocab_size,
                    config.embedding_size,
                    config.initializer_range,
                    use_one_hot_embeddings=use_one_hot_embeddings,
                )
                self.embedding_output = embedding_postprocessor(
                    self.word_embedding_output,
                    use_token_type=True,
                    token_type_ids=token_type_ids,
                    token_type_vocab_size=config.type_vocab_size,
                    initializer_range=config.initializer_range,
                    max_position_embeddings=config.max_position_embeddings,
                    dropout_prob=hidden,
                    # Google's BERT always does this for segments. The gradient then has one row per
                    # segment, not per token, in the norm that clips gradients.
                    use_one_hot_embeddings=use_one_hot_embeddings or isinstance(config, BertConfig),
                    position_ids=packing.position_ids if packing else None,
                )
            with tf.variable_scope("encoder"):
                self.all_encoder_layers = _encode(
                    self.embedding_output, input_mask, building, positions
                )
            self.sequence_output = self.all_encoder_layers[-1]
            with tf.variable_scope("pooler"):
                first = self.sequence_output[:, 0]
                if packing:
                    first = self.sequence_output[:, : packing.num_sequences]
                    first = tf.reshape(first, [-1, config.hidden_size])
                self.pooled_output = tf.tanh(
                    dense(first, config.hidden_size, config.initializer_range)
                )

    def get_pooled_output(self) -> tf.Tensor:
        """Returns float32 [B, H]: the first token's last state after a dense layer and tanh.

        With a `Packing`, returns [B * K, H], one for each sequence of each row.
        """
        return self.pooled_output

    def get_sequence_output(self) -> tf.Tensor:
        """Returns float32 [B, S, H], or [B, P, H]: the last layer's states."""
        return self.sequence_output

    def get_all_encoder_layers(self) -> list[tf.Tensor]:
        """Returns the states after every block, float32 [B, S, H]; the last may be [B, P, H]."""
        return self.all_encoder_layers

    def get_word_embedding_output(self) -> tf.Tensor:
        """Returns float32 [B, S, E]: the word embeddings without segments and positions."""
        return self.word_embedding_output

    def get_embedding_output(self) -> tf.Tensor:
        """Returns float32 [B, S, E]: normalized sum of word, segment and position embeddings."""
        return self.embedding_output

    def get_embedding_table(self) -> tf.Variable:
        """Returns float32 [vocab_size, E]: the word embedding table."""
        return self.output_embedding_table


# The reference's name. With this alias, `AlbertModel` takes either configuration.
AlbertModel = Encoder


class BertModel(Encoder):
    """An `Encoder` with the constructor arguments of Google's BERT."""

    def __init__(
        self,
        config,
        is_training,
        input_ids,
        input_mask=None,
        token_type_ids=None,
        use_one_hot_embeddings=False,
        scope=None,
    ):
        """Builds the graph from either configuration; see `Encoder`."""
        inputs = input_ids, input_mask, token_type_ids
        super().__init__(config, is_training, *inputs, use_one_hot_embeddings, False, scope)


def transformer_model(
    input_tensor,
    attention_mask=None,
    hidden_size=768,
    num_hidden_layers=12,
    num_hidden_groups=12,
    num_attention_heads=12,
    intermediate_size=3072,
    inner_group_num=1,
    intermediate_act_fn="gelu",
    hidden_dropout_prob=0.1,
    attention_probs_dropout_prob=0.1,
    initializer_range=0.02,
    do_return_all_layers=False,
    use_einsum=True,
) -> tf.Tensor | list[tf.Tensor]:
    """Returns the states [B, S, H] after the last block of ALBERT's encoder, or after every block.

    `input_tensor` is float32 [B, S, E]; `attention_mask`, int32 [B, S], is 1 where a token may be
    attended to, or None to attend to all. `intermediate_act_fn` is an activation or its name, see
    `get_activation`. For the others, see `AlbertConfig` and `Encoder`; dropout is always applied.
    Raises a `UserError`, which is a `ValueError`, if a value is impossible.
    """
    batch_size, seq_length, width = get_shape_list(input_tensor, expected_rank=3)
    config = AlbertConfig(
        vocab_size=1,
        embedding_size=width,
        hidden_size=hidden_size,
        num_hidden_layers=num_hidden_layers,
        num_hidden_groups=num_hidden_groups,
        num_attention_heads=num_attention_heads,
        intermediate_size=intermediate_size,
        inner_group_num=inner_group_num,
        hidden_act=intermediate_act_fn,
        initializer_range=initializer_range,
    )
    config.validate()
    if attention_mask is None:
        attention_mask = tf.ones([batch_size, seq_length], tf.int32)
    building = _BuildOptions(config, hidden_dropout_prob, attention_probs_dropout_prob, use_einsum)
    states = _encode(input_tensor, attention_mask, building)
    return states if do_return_all_layers else states[-1]


class _BuildOptions(NamedTuple):
    """A configuration with the other options for building an encoder."""

    config: EncoderConfig
    hidden_dropout: float
    attention_dropout: float
    use_einsum: bool
    gradient_checkpointing: bool = False
    remove_padding: bool = False
    packing: Packing | None = None


# The scopes of the variables of ALBERT and of BERT; None for a scope that a model lacks.
_SCOPES = {
    "layers": ("transformer", None),
    "group": ("group_{}", "layer_{}"),
    "inner": ("inner_group_{}", None),
    "attention": ("attention_1", "attention"),
    "attention_norm": ("LayerNorm", "attention/output/LayerNorm"),
    "wide": ("ffn_1/intermediate", "intermediate"),
    "output": ("ffn_1/intermediate/output", "output"),
    "output_norm": ("LayerNorm_1", "output/LayerNorm"),
}


def _scopes_of(config: EncoderConfig) -> dict[str, str | None]:
    column = int(isinstance(config, BertConfig))
    return {part: names[column] for part, names in _SCOPES.items()}


def _scope(name: str | None, number: int = 0, **options) -> contextlib.AbstractContextManager:
    """Returns a variable scope, or a null context if the name is None."""
    return tf.variable_scope(name.format(number), **options) if name else contextlib.nullcontext()


def _encode(
    embeddings: tf.Tensor,
    input_mask: tf.Tensor,
    building: _BuildOptions,
    positions: tf.Tensor | None = None,
) -> list[tf.Tensor]:
    """Maps [B, S, E] to every block's states [B, S, H]; with `positions`, the last is [B, P, H]."""
    config, width = building.config, embeddings.shape[-1]
    scope = tf.get_variable_scope().name
    num_heads, packing = config.num_attention_heads, building.packing
    tokens: PaddedRows
    if building.remove_padding:
        tokens = UnpaddedRows(input_mask, num_heads)
    else:
        tokens = PaddedRows(input_mask, num_heads, packing.sequence_ids if packing else None)
    state = tokens.rows(embeddings)
    if width != config.hidden_size:
        size, spread = config.hidden_size, config.initializer_range
        state = dense(state, size, spread, building.use_einsum, "embedding_hidden_mapping_in")
    recomputation = Recomputation() if building.gradient_checkpointing else None
    states: list[tf.Tensor] = []
    scopes = _scopes_of(config)
    with _scope(scopes["layers"], reuse=tf.AUTO_REUSE):
        for layer in range(config.num_hidden_layers):
            group = layer * config.num_hidden_groups // config.num_hidden_layers
            # In BERT, the scope of the weights is also a scope of operations.
            named = tf.name_scope(f"layer_{layer}") if scopes["inner"] else contextlib.nullcontext()
            with _scope(scopes["group"], group), named:
                for inner in range(config.inner_group_num):
                    is_last = len(states) + 1 == config.num_hidden_layers * config.inner_group_num
                    needed = positions if is_last else None
                    with _scope(scopes["inner"], inner):
                        block = functools.partial(
                            _block,
                            tokens=tokens,
                            building=building,
                            site=f"{scope}/layer_{layer}/inner_group_{inner}",
                            positions=needed,
                        )
                        state = recomputation.apply(block, state) if recomputation else block(state)
                    if needed is None:
                        states.append(tokens.sequences(state))
                    else:
                        shape = [-1, *get_shape_list(needed)[1:], config.hidden_size]
                        states.append(tf.reshape(state, shape))
    return states


def _block(
    state: tf.Tensor,
    tokens: PaddedRows,
    building: _BuildOptions,
    site: str,
    positions: tf.Tensor | None,
) -> tf.Tensor:
    """Applies attention and feed-forward to [M, H]; with `positions`, returns only [B * P, H]."""
    config, hidden_dropout, attention_dropout, use_einsum, *_ = building
    scopes = _scopes_of(config)

    def layer(x: tf.Tensor, size: int, name: str = "dense", activation: Any = None) -> tf.Tensor:
        return dense(x, size, config.initializer_range, use_einsum, name, activation)

    with tf.variable_scope(scopes["attention"]):
        with tf.variable_scope("self"):
            context = tokens.self_attention(
                tuple(layer(state, config.hidden_size, n) for n in ("query", "key", "value")),
                attention_dropout,
                f"{site}/attention_probabilities",
            )
        if positions is not None:
            context, state = (tokens.gather_at(positions, rows) for rows in (context, state))
        with tf.variable_scope("output"):
            attention = layer(context, config.hidden_size)
            attention = dropout(attention, hidden_dropout, site=f"{site}/attention_output")
    attention = layer_norm(attention + state, scopes["attention_norm"])
    with tf.variable_scope(scopes["wide"]):
        wide = layer(attention, config.intermediate_size, activation=config.hidden_act)
    with tf.variable_scope(scopes["output"]):
        output = layer(wide, config.hidden_size)
        output = dropout(output, hidden_dropout, site=f"{site}/output")
    return layer_norm(output + attention, scopes["output_norm"])
