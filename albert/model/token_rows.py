"""Layouts of a batch's tokens as rows of the matrix that the dense layers work on.

Either every position of every sequence has a row, padding too (`PaddedRows`), or real tokens alone
(`PackedRows`, as in https://arxiv.org/abs/2208.08124), so that no arithmetic is spent on padding.

Letters in shape comments: B batch, S sequence length, M rows, W width, N attention heads, D size of
a head.
"""

from __future__ import annotations

import abc
import functools
import itertools
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from albert.model.layers import attend, attention_bias, get_shape_list, split_heads

# The numbers of rows, and the lengths that attention sees, are multiples of these: libraries
# prepare a matrix product for every new shape.
_ROWS, _LENGTHS = 64, 16
# Attention sees the sequences of a batch in so many groups, each of them as long as its longest.
_GROUPS = 4


class TokenRows(abc.ABC):
    """Where the tokens of a batch are among the rows of a matrix."""

    @abc.abstractmethod
    def rows(self, sequences: tf.Tensor) -> tf.Tensor:
        """Returns [M, W] of [B, S, W]."""

    @abc.abstractmethod
    def sequences(self, rows: tf.Tensor) -> tf.Tensor:
        """Returns [B, S, W] of [M, W]; where a position has no row it is 0."""

    @abc.abstractmethod
    def gather_at(self, positions: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Returns [B * P, W] of [M, W]: the rows of int32 [B, P] or [1, P] positions."""

    @abc.abstractmethod
    def self_attention(
        self,
        projections: tuple[tf.Tensor, tf.Tensor, tf.Tensor],
        dropout_prob: float,
        site: str,
    ) -> tf.Tensor:
        """Returns each token's attention context within its sequence: [M, N * D].

        Args:
          projections: query, key and value, [M, N * D] each.
          dropout_prob: of the probabilities.
          site: of the dropout.
        """


class PaddedRows(TokenRows):
    """A row for every position."""

    def __init__(self, input_mask: tf.Tensor, num_heads: int):
        """Takes int32 [B, S], 1 where a token may be attended to, and N."""
        self._num_heads = num_heads
        input_mask = tf.convert_to_tensor(input_mask)
        self._shape = get_shape_list(input_mask, expected_rank=2)
        self._bias = attention_bias(input_mask)

    def rows(self, sequences: tf.Tensor) -> tf.Tensor:
        return tf.reshape(sequences, [-1, sequences.shape[-1]])

    def sequences(self, rows: tf.Tensor) -> tf.Tensor:
        return tf.reshape(rows, [*self._shape, rows.shape[-1]])

    def gather_at(self, positions: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        return tf.gather(rows, _flat(positions, self._shape))

    def self_attention(self, projections, dropout_prob, site):
        query, key, value = (split_heads(x, self._shape, self._num_heads) for x in projections)
        context = attend(query, key, value, self._bias, dropout_prob, site)
        return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, projections[0].shape[-1]])


class _Group(NamedTuple):
    """Sequences of like length, as attention sees them.

    Attributes:
      shape: how many they are, N, and how many places L each has.
      bias: see `attention_bias`.
    """

    shape: list[tf.Tensor | int]
    bias: tf.Tensor


class PackedRows(TokenRows):
    """A row for every real token, sequence by sequence, and some idle rows behind them.

    Attention sees sequences in groups, of one length in each, in which every place without a token
    has the last, idle row. All that moves between the two is gathered, forward and backward: no
    gradient reaches an idle row, because no token attends to one and none is in the output, and
    none reaches a place without a token, because its gradient is that of an idle row.
    """

    def __init__(self, input_mask: tf.Tensor, num_heads: int):
        """Takes int32 [B, S], 1 where a token is real, which may have holes, and N."""
        self._num_heads = num_heads
        input_mask = tf.convert_to_tensor(input_mask)
        self._shape = get_shape_list(input_mask, expected_rank=2)
        real = tf.reshape(tf.cast(input_mask > 0, tf.int32), self._shape)
        positions = tf.cast(tf.where(tf.reshape(real, [-1]))[:, 0], tf.int32)
        count = tf.size(positions)
        # At least one is idle.
        self._num_rows = (count // _ROWS + 1) * _ROWS
        self._idle = self._num_rows - 1
        self._is_real = tf.range(self._num_rows) < count
        # Of each row its position in [B * S]; idle ones have the first.
        self._position_of = tf.pad(positions, [[0, self._num_rows - count]])
        # Of each position its row.
        rank = tf.cumsum(tf.reshape(real, [-1]), exclusive=True)
        self._row_of = self._or_idle(tf.reshape(real, [-1]) > 0, rank)
        self._group(tf.reduce_sum(real, axis=1), positions // self._shape[1])

    def _group(self, lengths: tf.Tensor, sequence_of: tf.Tensor) -> None:
        """Makes the groups, once for all layers, and the ways to them and back.

        These are the row among [M * N] that each place takes, of all groups' [B * N * L] one after
        the other, and the place that each of the rows takes.

        Args:
          lengths: of the sequences, int32 [B].
          sequence_of: the sequence of each token, int32.
        """
        order = tf.argsort(lengths, direction="DESCENDING", stable=True)
        first_rows = tf.cumsum(lengths, exclusive=True)
        size, heads = tf.size(lengths), tf.range(self._num_heads)
        bounds = [size * number // _GROUPS for number in range(_GROUPS + 1)]
        self._groups, taken, places = [], [], []
        for begin, end in itertools.pairwise(bounds):
            own = tf.gather(lengths, order[begin:end])
            # A small batch leaves some empty.
            length = (tf.reduce_max(tf.pad(own, [[0, 1]])) // _LENGTHS + 1) * _LENGTHS
            is_token = tf.sequence_mask(own, length)
            rows = tf.gather(first_rows, order[begin:end])[:, tf.newaxis] + tf.range(length)
            rows = self._or_idle(is_token, rows)[:, tf.newaxis]
            taken.append(tf.reshape(rows * self._num_heads + heads[:, tf.newaxis], [-1]))
            places.append(tf.fill([end - begin], length))
            shape = [end - begin, self._num_heads, length]
            self._groups.append(_Group(shape, attention_bias(tf.cast(is_token, tf.int32))))
        self._sizes = tf.stack([tf.size(rows) for rows in taken])
        self._to_groups = tf.concat(taken, axis=0)
        # Of each sequence how many places it has, and the first of these.
        places, back = tf.concat(places, axis=0), tf.argsort(order)
        first_places = tf.gather(tf.cumsum(places * self._num_heads, exclusive=True), back)
        first, step = (tf.gather(of, sequence_of) for of in (first_places, tf.gather(places, back)))
        first += tf.range(tf.size(sequence_of)) - tf.gather(first_rows, sequence_of)
        tokens = tf.reshape(first[:, tf.newaxis] + heads * step[:, tf.newaxis], [-1])
        # The last place of every sequence has no token: idle rows are there.
        last, idle = tf.size(self._to_groups) - 1, self._num_rows * self._num_heads
        padding = [[0, idle - tf.size(tokens)]]
        self._to_rows = tf.pad(tokens, padding, constant_values=last)

    def _or_idle(self, is_token: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        return tf.where(is_token, rows, tf.fill(tf.shape(rows), self._idle))

    def rows(self, sequences: tf.Tensor) -> tf.Tensor:
        width = sequences.shape[-1]
        flat = tf.reshape(sequences, [-1, width])
        return _move(flat, self._position_of, self._row_of)

    def gather_at(self, positions: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        return tf.gather(rows, tf.gather(self._row_of, _flat(positions, self._shape)))

    def sequences(self, rows: tf.Tensor) -> tf.Tensor:
        real = tf.cast(self._is_real, rows.dtype)[:, tf.newaxis]
        # The idle row becomes 0, and its gradient too.
        flat = _move(rows * real, self._row_of, self._position_of)
        return tf.reshape(flat, [*self._shape, rows.shape[-1]])

    def self_attention(self, projections, dropout_prob, site):
        width = projections[0].shape[-1]
        size, to_groups, to_rows = width // self._num_heads, self._to_groups, self._to_rows
        moved = (_move(tf.reshape(x, [-1, size]), to_groups, to_rows) for x in projections)
        parts = zip(*(tf.split(x, self._sizes, num=_GROUPS) for x in moved), strict=True)
        contexts = []
        for number, (group, heads) in enumerate(zip(self._groups, parts, strict=True)):
            query, key, value = (tf.reshape(x, [*group.shape, size]) for x in heads)
            context = attend(query, key, value, group.bias, dropout_prob, f"{site}/group_{number}")
            contexts.append(tf.reshape(context, [-1, size]))
        context = _move(tf.concat(contexts, axis=0), to_rows, to_groups)
        return tf.reshape(context, [-1, width])


def _flat(positions: tf.Tensor, shape: list) -> tf.Tensor:
    """Returns int32 [B * P]: where positions [B, P] or [1, P] of sequences are in [B * S]."""
    first = tf.range(shape[0]) * shape[1]
    return tf.reshape(positions + first[:, tf.newaxis], [-1])


def _move(x: tf.Tensor, taken: tf.Tensor, back: tf.Tensor) -> tf.Tensor:
    """Returns the rows `taken` of x [M, W]; `back` are those that its gradient is of."""
    with x.graph.gradient_override_map({"GatherV2": _gradient_of_move(back.name)}):
        return tf.gather(x, taken)


@functools.cache
def _gradient_of_move(back: str) -> str:
    """Returns the registered name of the gradient that takes the rows in a tensor of that name.

    `tf.custom_gradient` would put operations between that are float32 whatever is around them.
    """
    name = f"MoveRows/{back}"

    @tf.RegisterGradient(name)
    def _take_back(operation: tf.Operation, gradient: tf.Tensor):
        return tf.gather(gradient, operation.graph.get_tensor_by_name(back)), None, None

    return name
