"""The ALBERT encoder (https://arxiv.org/abs/1909.11942).

It knows no task, no file layout and no device. Variable names are those of the official
checkpoints, such as `bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/dense/bias`.

Letters in shape comments: B batch, S sequence length, E embedding size, H hidden size, N attention
heads, D = H / N, I intermediate size. Inside the encoder activations are matrices of shape
[B * S, H]: on every device one matrix product per dense layer, and one for its gradient.
"""

from __future__ import annotations

import copy
import functools
import json
import math
from collections.abc import Callable
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from modeling_layers import (  # noqa: F401  The reference has all of them here.
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
    get_shape_list,
    layer_norm,
    layer_norm_and_dropout,
    reshape_from_matrix,
    reshape_to_matrix,
    split_heads,
)
from modeling_recompute import Recomputation
from runtime.checkpoints.initialization import (  # noqa: F401  The reference has them here.
    get_assignment_map_from_checkpoint,
    initialize_from_checkpoint,
)
from runtime.devices.ops import gelu  # The reference has it here.
from runtime.errors import UserError
from runtime.json_input import read_json
from token_rows import PackedRows, PaddedRows, TokenRows

# Positive integers, and what they may be at most: far beyond any model, and few enough that a graph
# is built in minutes and the elements of no variable are too many for TensorFlow to count.
_MOST_BLOCKS, _WIDEST, _MOST_ROWS = 1000, 2**20, 2**31 - 1
_LARGEST = {
    "vocab_size": _MOST_ROWS,
    "embedding_size": _WIDEST,
    "hidden_size": _WIDEST,
    "num_hidden_layers": _MOST_BLOCKS,
    "num_hidden_groups": _MOST_BLOCKS,
    "num_attention_heads": _WIDEST,
    "intermediate_size": _WIDEST,
    "inner_group_num": _MOST_BLOCKS,
    "max_position_embeddings": _MOST_ROWS,
    "type_vocab_size": _MOST_ROWS,
}


class AlbertConfig:
    """Sizes and rates of an `AlbertModel`; the defaults are those of ALBERT-xxlarge v1.

    Attributes have the names of the keys in `albert_config.json`. Keys that this project does not
    use are kept, so that `to_dict` gives back what was read.
    """

    def __init__(
        self,
        vocab_size,
        embedding_size=128,
        hidden_size=4096,
        num_hidden_layers=12,
        num_hidden_groups=1,
        num_attention_heads=64,
        intermediate_size=16384,
        inner_group_num=1,
        down_scale_factor=1,
        hidden_act="gelu",
        hidden_dropout_prob=0,
        attention_probs_dropout_prob=0,
        max_position_embeddings=512,
        type_vocab_size=2,
        initializer_range=0.02,
    ):
        """Builds a configuration.

        Args:
          vocab_size: number of word pieces.
          embedding_size: width E of the embedding tables.
          hidden_size: width H of the encoder; a multiple of `num_attention_heads`.
          num_hidden_layers: how many times a transformer layer is applied.
          num_hidden_groups: how many sets of weights the layers share.
          num_attention_heads: attention heads N of a layer.
          intermediate_size: width I of the feed-forward layer.
          inner_group_num: attention and feed-forward blocks in a layer.
          down_scale_factor: kept for compatibility, not used (nor is it in the reference).
          hidden_act: name of the activation, see `get_activation`.
          hidden_dropout_prob: dropout rate of embeddings and dense outputs.
          attention_probs_dropout_prob: dropout rate of attention probabilities.
          max_position_embeddings: the longest sequence.
          type_vocab_size: number of segment ids.
          initializer_range: standard deviation of the weights' truncated normal initializer.
        """
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size
        self.hidden_size = hidden_size
        self.num_hidden_layers = num_hidden_layers
        self.num_hidden_groups = num_hidden_groups
        self.num_attention_heads = num_attention_heads
        self.inner_group_num = inner_group_num
        self.down_scale_factor = down_scale_factor
        self.hidden_act = hidden_act
        self.intermediate_size = intermediate_size
        self.hidden_dropout_prob = hidden_dropout_prob
        self.attention_probs_dropout_prob = attention_probs_dropout_prob
        self.max_position_embeddings = max_position_embeddings
        self.type_vocab_size = type_vocab_size
        self.initializer_range = initializer_range

    @classmethod
    def from_dict(cls, json_object: dict) -> AlbertConfig:
        """Makes a configuration with the given values; keys left out have their defaults.

        Raises:
          UserError: a key is the name of a method.
        """
        for key in json_object:
            if hasattr(cls, key):
                raise UserError(f"{key!r} cannot be the name of a value; take it out")
        config = cls(vocab_size=None)
        config.__dict__.update(json_object)
        return config

    @classmethod
    def from_json_file(cls, json_file: str) -> AlbertConfig:
        """Reads and validates a configuration.

        Raises:
          UserError: the file is missing, is no JSON object, or holds impossible values.
        """
        values = read_json(json_file, "the ALBERT configuration")
        if not isinstance(values, dict):
            raise UserError(f"{json_file}: the ALBERT configuration is not a JSON object")
        try:
            config = cls.from_dict(values)
            config.validate()
        except UserError as e:
            raise UserError(f"{json_file}: {e}") from e
        return config

    def validate(self) -> None:
        """Raises a `UserError` that names the first value no model can be built from."""
        for name, largest in _LARGEST.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UserError(f"{name} must be a positive integer, not {value!r}")
            if value > largest:
                raise UserError(f"{name} must be {largest} at most, not {value}")
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value < 1:
                raise UserError(f"{name} must be a number from 0 to below 1, not {value!r}")
        if self.hidden_size % self.num_attention_heads:
            raise UserError(
                f"hidden_size {self.hidden_size} is not a multiple of "
                f"num_attention_heads {self.num_attention_heads}"
            )
        if self.num_hidden_groups > self.num_hidden_layers:
            raise UserError(
                f"num_hidden_groups {self.num_hidden_groups} is more than "
                f"num_hidden_layers {self.num_hidden_layers}"
            )
        blocks = self.num_hidden_layers * self.inner_group_num
        if blocks > _MOST_BLOCKS:
            raise UserError(
                f"num_hidden_layers {self.num_hidden_layers} times inner_group_num "
                f"{self.inner_group_num} must be {_MOST_BLOCKS} at most"
            )
        deviation = self.initializer_range
        if not isinstance(deviation, int | float) or not 0 < deviation < math.inf:
            raise UserError(f"initializer_range must be positive and finite, not {deviation!r}")
        act = self.hidden_act
        if not (act is None or isinstance(act, str) or callable(act)):
            raise UserError(f"hidden_act must be a name or a function, not {act!r}")
        get_activation(act)

    def to_dict(self) -> dict:
        """Returns all values, as a dictionary."""
        return copy.deepcopy(self.__dict__)

    def to_json_string(self) -> str:
        """Returns all values, as indented JSON with sorted keys."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"


class AlbertModel:
    """The encoder and its pooler, built into the current graph.

    Example:
      model = AlbertModel(config, is_training=True, input_ids=ids, input_mask=mask,
                          token_type_ids=segments)
      logits = tf.matmul(model.get_pooled_output(), weights)
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
    ):
        """Builds the graph.

        Args:
          config: an `AlbertConfig`.
          is_training: whether dropout is applied.
          input_ids: int32 [B, S].
          input_mask: int32 [B, S], 1 where a token may be attended to, 0 elsewhere (anywhere, not
            only at the end); None for all ones.
          token_type_ids: int32 [B, S] segment ids; None for all zeros.
          use_one_hot_embeddings: look words up by a product with a one-hot matrix.
          use_einsum: dense layers through `tf.einsum` instead of `tf.matmul`.
          scope: name of the variable scope, "bert" if None.
          gradient_checkpointing: compute each block again in the backward pass: less memory, and
            a third more time. The graph needs a seed.
          remove_padding: leave positions outside `input_mask` out of the layers: the same states
            of real tokens, 0 for the others, with other masks of dropout.

        Raises:
          UserError: the configuration or the sequence length is impossible.
        """
        config.validate()
        hidden_dropout = config.hidden_dropout_prob if is_training else 0.0
        attention_dropout = config.attention_probs_dropout_prob if is_training else 0.0
        building = _Building(
            config,
            hidden_dropout,
            attention_dropout,
            use_einsum,
            gradient_checkpointing,
            remove_padding,
        )
        batch_size, seq_length = get_shape_list(input_ids, expected_rank=2)
        if input_mask is None:
            input_mask = tf.ones([batch_size, seq_length], tf.int32)
        if token_type_ids is None:
            token_type_ids = tf.zeros([batch_size, seq_length], tf.int32)

        if is_training:
            # Dropout depends on it. Made here, it does not end up in a scope of the model.
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
                    dropout_prob=hidden_dropout,
                    use_one_hot_embeddings=use_one_hot_embeddings,
                )
            with tf.variable_scope("encoder"):
                self.all_encoder_layers = _encode(self.embedding_output, input_mask, building)
            self.sequence_output = self.all_encoder_layers[-1]
            with tf.variable_scope("pooler"):
                self.pooled_output = tf.tanh(
                    dense(self.sequence_output[:, 0], config.hidden_size, config.initializer_range)
                )

    def get_pooled_output(self) -> tf.Tensor:
        """Returns float32 [B, H]: the first token's last state through a dense layer and tanh."""
        return self.pooled_output

    def get_sequence_output(self) -> tf.Tensor:
        """Returns float32 [B, S, H]: the last layer's states."""
        return self.sequence_output

    def get_all_encoder_layers(self) -> list[tf.Tensor]:
        """Returns the states after every block, float32 [B, S, H] each."""
        return self.all_encoder_layers

    def get_word_embedding_output(self) -> tf.Tensor:
        """Returns float32 [B, S, E]: the word embeddings alone."""
        return self.word_embedding_output

    def get_embedding_output(self) -> tf.Tensor:
        """Returns float32 [B, S, E]: words, segments and positions summed and normalized."""
        return self.embedding_output

    def get_embedding_table(self) -> tf.Variable:
        """Returns float32 [vocab_size, E]: the word embedding table."""
        return self.output_embedding_table


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
    """Returns the states [B, S, H] of the encoder of an `AlbertModel`, of the last block or of all.

    Args:
      input_tensor: float32 [B, S, E].
      attention_mask: int32 [B, S], 1 where a token may be attended to; None for all.
      intermediate_act_fn: the activation, or its name, see `get_activation`.
      do_return_all_layers: return a list with the states after every block.
      hidden_size, num_hidden_layers, num_hidden_groups, num_attention_heads, intermediate_size,
        inner_group_num, hidden_dropout_prob, attention_probs_dropout_prob, initializer_range,
        use_einsum: see `AlbertConfig` and `AlbertModel`; dropout is always applied.

    Raises:
      UserError (a ValueError): a value is impossible.
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
    building = _Building(config, hidden_dropout_prob, attention_probs_dropout_prob, use_einsum)
    states = _encode(input_tensor, attention_mask, building)
    return states if do_return_all_layers else states[-1]


class _Building(NamedTuple):
    """How an encoder is built: its configuration, and what is not in it."""

    config: AlbertConfig
    hidden_dropout: float
    attention_dropout: float
    use_einsum: bool
    gradient_checkpointing: bool = False
    remove_padding: bool = False


def _encode(embeddings: tf.Tensor, input_mask: tf.Tensor, building: _Building) -> list[tf.Tensor]:
    """Runs the transformer: [B, S, E] to a list with the states [B, S, H] after every block."""
    config, width = building.config, embeddings.shape[-1]
    scope = tf.get_variable_scope().name
    tokens = (PackedRows if building.remove_padding else PaddedRows)(input_mask)
    state = tokens.rows(embeddings)
    if width != config.hidden_size:
        state = dense(
            state,
            config.hidden_size,
            config.initializer_range,
            use_einsum=building.use_einsum,
            name="embedding_hidden_mapping_in",
        )
    recomputation = Recomputation() if building.gradient_checkpointing else None
    states = []
    with tf.variable_scope("transformer", reuse=tf.AUTO_REUSE):
        for layer in range(config.num_hidden_layers):
            group = layer * config.num_hidden_groups // config.num_hidden_layers
            with tf.variable_scope(f"group_{group}"), tf.name_scope(f"layer_{layer}"):
                for inner in range(config.inner_group_num):
                    with tf.variable_scope(f"inner_group_{inner}"):
                        block = functools.partial(
                            _block,
                            tokens=tokens,
                            building=building,
                            place=f"{scope}/layer_{layer}/inner_group_{inner}",
                        )
                        state = recomputation.apply(block, state) if recomputation else block(state)
                    states.append(tokens.sequences(state))
    return states


def _block(state: tf.Tensor, tokens: TokenRows, building: _Building, place: str) -> tf.Tensor:
    """Applies self-attention and feed-forward, each with residual and layer norm, to [M, H].

    `place` begins the names of the dropouts' places.
    """
    config, hidden_dropout, attention_dropout, use_einsum, *_ = building

    def layer(x: tf.Tensor, size: int, name: str = "dense") -> tf.Tensor:
        return dense(x, size, config.initializer_range, use_einsum=use_einsum, name=name)

    with tf.variable_scope("attention_1"):
        with tf.variable_scope("self"):
            context = tokens.self_attention(
                tuple(layer(state, config.hidden_size, n) for n in ("query", "key", "value")),
                config.num_attention_heads,
                attention_dropout,
                f"{place}/attention_probabilities",
            )
        with tf.variable_scope("output"):
            attention = layer(context, config.hidden_size)
            attention = dropout(attention, hidden_dropout, place=f"{place}/attention_output")
    attention = layer_norm(attention + state, "LayerNorm")
    with tf.variable_scope("ffn_1"), tf.variable_scope("intermediate"):
        wide = layer(attention, config.intermediate_size)
        activation = get_activation(config.hidden_act)
        wide = activation(wide) if activation else wide
        with tf.variable_scope("output"):
            output = layer(wide, config.hidden_size)
            output = dropout(output, hidden_dropout, place=f"{place}/output")
    return layer_norm(output + attention, "LayerNorm_1")


def get_activation(activation_string: str | Callable | None) -> Callable | None:
    """Returns the function called "relu", "gelu" or "tanh"; None for "linear", "" or None.

    Anything that is not a string is taken for a function and returned.

    Raises:
      UserError (a ValueError): no activation has that name.
    """
    if not isinstance(activation_string, str):
        return activation_string
    known = {"": None, "linear": None, "relu": tf.nn.relu, "gelu": gelu, "tanh": tf.tanh}
    name = activation_string.lower()
    if name not in known:
        raise UserError(f"Unsupported activation: {name} (known: gelu, relu, tanh, linear)")
    return known[name]
