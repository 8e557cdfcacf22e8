"""How the tokens of a batch lie in the matrix that an encoder's dense layers work on.

Either every position of every sequence has a row, padding too (`PaddedRows`), or real tokens alone
(`PackedRows`, as in https://arxiv.org/abs/2208.08124), so that no arithmetic is spent on padding.

Letters in shape comments: B batch, S sequence length, M rows, W width, N attention heads, D size of
a head.
"""

from __future__ import annotations

import abc

import tensorflow.compat.v1 as tf

from modeling_layers import attend, attention_bias, get_shape_list, split_heads

# The numbers of rows, and the lengths that attention sees, are multiples of these: libraries
# prepare a matrix product for every new shape.
_ROWS, _LENGTHS = 64, 16


class TokenRows(abc.ABC):
    """Where the tokens of a batch are among the rows of a matrix."""

    @abc.abstractmethod
    def rows(self, sequences: tf.Tensor) -> tf.Tensor:
        """Returns [M, W] of [B, S, W]."""

    @abc.abstractmethod
    def sequences(self, rows: tf.Tensor) -> tf.Tensor:
        """Returns [B, S, W] of [M, W]; where a position has no row it is 0."""

    @abc.abstractmethod
    def self_attention(
        self,
        projections: tuple[tf.Tensor, tf.Tensor, tf.Tensor],
        dropout_prob: float,
        place: str,
    ) -> tf.Tensor:
        """Returns what every token attends to in its sequence: [M, N * D].

        Args:
          projections: query, key and value, [M, N * D] each.
          dropout_prob: of the probabilities.
          place: of the dropout.
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

    def self_attention(self, projections, dropout_prob, place):
        heads = (split_heads(x, self._shape, self._num_heads) for x in projections)
        context = attend(*heads, self._bias, dropout_prob, place)
        return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, projections[0].shape[-1]])


class PackedRows(TokenRows):
    """A row for every real token, sequence by sequence, and some idle rows behind them.

    Attention sees sequences of one length, the batch's longest, in which every place without a
    token has the last, idle row. All that moves between the two is gathered, forward and backward:
    no gradient reaches an idle row, because no token attends to one and none is in the output, and
    none reaches a place without a token, because its gradient is that of an idle row.
    """

    def __init__(self, input_mask: tf.Tensor, num_heads: int):
        """Takes int32 [B, S], 1 where a token is real, which may have holes, and N."""
        self._num_heads = num_heads
        input_mask = tf.convert_to_tensor(input_mask)
        self._shape = get_shape_list(input_mask, expected_rank=2)
        real = tf.reshape(tf.cast(input_mask > 0, tf.int32), self._shape)
        lengths = tf.reduce_sum(real, axis=1)
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
        self._make_grid(lengths)

    def _make_grid(self, lengths: tf.Tensor) -> None:
        """Makes the sequences that attention sees, of L places, once for all layers.

        That is of each place [B * N * L] the row among [M * N] which it takes, and of each of those
        rows the place that it takes.
        """
        length = (tf.reduce_max(lengths) // _LENGTHS + 1) * _LENGTHS
        self._bias = attention_bias(tf.sequence_mask(lengths, length, tf.int32))
        places, first = tf.range(length)[tf.newaxis], tf.cumsum(lengths, exclusive=True)
        is_token = places < lengths[:, tf.newaxis]
        rows = self._or_idle(is_token, first[:, tf.newaxis] + places)
        # The last place of every sequence has no token: idle rows are there.
        places_of_rows = tf.cast(tf.where(tf.reshape(is_token, [-1]))[:, 0], tf.int32)
        missing = self._num_rows - tf.size(places_of_rows)
        last = tf.size(is_token) - 1
        place_of = tf.pad(places_of_rows, [[0, missing]], constant_values=last)
        count, heads, self._length = self._num_heads, tf.range(self._num_heads), length
        to_grid = rows[:, tf.newaxis] * count + heads[:, tf.newaxis]
        batch, place = place_of // length, place_of % length
        to_rows = (batch[:, tf.newaxis] * count + heads) * length + place[:, tf.newaxis]
        self._to_grid, self._to_rows = (tf.reshape(x, [-1]) for x in (to_grid, to_rows))

    def _or_idle(self, is_token: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        return tf.where(is_token, rows, tf.fill(tf.shape(rows), self._idle))

    def rows(self, sequences: tf.Tensor) -> tf.Tensor:
        width = sequences.shape[-1]
        flat = tf.reshape(sequences, [-1, width])
        return _move(flat, self._position_of, self._row_of)

    def sequences(self, rows: tf.Tensor) -> tf.Tensor:
        real = tf.cast(self._is_real, rows.dtype)[:, tf.newaxis]
        # The idle row becomes 0, and its gradient too.
        flat = _move(rows * real, self._row_of, self._position_of)
        return tf.reshape(flat, [*self._shape, rows.shape[-1]])

    def self_attention(self, projections, dropout_prob, place):
        width = projections[0].shape[-1]
        size, to_grid, to_rows = width // self._num_heads, self._to_grid, self._to_rows
        shape = [self._shape[0], self._num_heads, self._length, size]
        heads = (
            tf.reshape(_move(tf.reshape(x, [-1, size]), to_grid, to_rows), shape)
            for x in projections
        )
        context = attend(*heads, self._bias, dropout_prob, place)
        context = _move(tf.reshape(context, [-1, size]), to_rows, to_grid)
        return tf.reshape(context, [-1, width])


def _move(x: tf.Tensor, taken: tf.Tensor, back: tf.Tensor) -> tf.Tensor:
    """Returns the rows `taken` of x [M, W]; `back` are those that its gradient is of."""

    @tf.custom_gradient
    def move(x: tf.Tensor):
        return tf.gather(x, taken), lambda gradient: tf.gather(gradient, back)

    return move(x)
