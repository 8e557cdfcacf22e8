"""Layouts of a batch's tokens as rows of the matrix that the dense layers process.

With `PaddedRows`, every position of every sequence has a row, including padding. With
`UnpaddedRows` (as in https://arxiv.org/abs/2208.08124), only real tokens have a row, so that
padding costs no arithmetic.

Letters in shape comments: B batch, S sequence length, M rows, W width, N attention heads, D size of
a head.
"""

from __future__ import annotations

import functools
import itertools

import tensorflow.compat.v1 as tf

from albert.model import layers

# The number of rows and the lengths in attention are multiples of these, which limits the number of
# shapes: libraries prepare a matrix product for every new shape. Few rows are multiples of less,
# because idle rows would take much of the time.
_ROWS, _LENGTHS = 64, 16
_FEW, _FEW_ROWS = 256, 16
# Attention splits a batch's sequences into this many groups, each as long as its longest sequence.
_GROUPS = 4


class PaddedRows:
    """A mapping between the tokens of a batch and the rows of a matrix: one row per position."""

    def __init__(
        self, input_mask: tf.Tensor, num_heads: int, sequence_ids: tf.Tensor | None = None
    ):
        """Makes the layout; `input_mask`, int32 [B, S], is 1 where a token may be attended to.

        `sequence_ids`, see `Packing` in `albert.modeling`, replace the mask if they are given.
        """
        self._num_heads = num_heads
        input_mask = tf.convert_to_tensor(input_mask)
        self._shape = layers.get_shape_list(input_mask, expected_rank=2)
        if sequence_ids is None:
            self._bias = layers.attention_bias(input_mask)
        else:
            self._bias = layers.block_diagonal_bias(sequence_ids)

    def rows(self, sequences: tf.Tensor) -> tf.Tensor:
        """Converts sequences [B, S, W] to rows [M, W]."""
        return tf.reshape(sequences, [-1, sequences.shape[-1]])

    def sequences(self, rows: tf.Tensor) -> tf.Tensor:
        """Converts rows [M, W] to sequences [B, S, W], with 0 at positions without a row."""
        return tf.reshape(rows, [*self._shape, rows.shape[-1]])

    def gather_at(self, positions: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """Returns the rows, of [M, W], at int32 [B, P] or [1, P] positions, as [B * P, W]."""
        return tf.gather(rows, _flat(positions, self._shape))

    def self_attention(
        self, projections: tuple[tf.Tensor, tf.Tensor, tf.Tensor], dropout_prob: float, site: str
    ) -> tf.Tensor:
        """Returns each token's attention context within its sequence: [M, N * D].

        `projections` are query, key and value, [M, N * D] each; `site` names the dropout.
        """
        query, key, value = (
            layers.split_heads(x, self._shape, self._num_heads) for x in projections
        )
        context = layers.attend(query, key, value, self._bias, dropout_prob, site)
        return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, projections[0].shape[-1]])


class UnpaddedRows(PaddedRows):
    """A layout with one row per real token, in the order of the sequences, followed by idle rows.

    Attention processes groups of sequences, padded to one length per group. Padding in a group
    takes its values from the last row, which is idle. Rows move to groups and back with gathers,
    both forward and backward. No gradient reaches an idle row, because no token attends to it and
    it is not in the output. None reaches the padding in a group, because the gradient there is that
    of an idle row.
    """

    def __init__(self, input_mask: tf.Tensor, num_heads: int):
        """Makes the layout; `input_mask`, int32 [B, S], is 0 at padding, which may be anywhere."""
        self._num_heads = num_heads
        input_mask = tf.convert_to_tensor(input_mask)
        self._shape = layers.get_shape_list(input_mask, expected_rank=2)
        real = tf.reshape(tf.cast(input_mask > 0, tf.int32), self._shape)
        positions = tf.cast(tf.where(tf.reshape(real, [-1]))[:, 0], tf.int32)
        count = tf.size(positions)
        # At least one row is idle.
        step = tf.where(count < _FEW, _FEW_ROWS, _ROWS)
        self._num_rows = (count // step + 1) * step
        self._idle = self._num_rows - 1
        self._is_real = tf.range(self._num_rows) < count
        # For each row, its position in [B * S]; idle rows have position 0.
        self._position_of = tf.pad(positions, [[0, self._num_rows - count]])
        # For each position, its row.
        rank = tf.cumsum(tf.reshape(real, [-1]), exclusive=True)
        self._row_of = self._or_idle(tf.reshape(real, [-1]) > 0, rank)
        self._group(tf.reduce_sum(real, axis=1), positions // self._shape[1])

    def _group(self, lengths: tf.Tensor, sequence_of: tf.Tensor) -> None:
        """Makes the groups, and the indices that move rows to them and back, for all layers.

        For example, sequences of 3, 9 and 5 tokens have rows 0-2, 3-11 and 12-16. In two groups,
        with lengths padded to multiples of 8, the sequence of 9 tokens has 16 slots in the first;
        those of 5 and 3 tokens have 8 slots each in the second. Slots without a token are idle.
        """
        order = tf.argsort(lengths, direction="DESCENDING", stable=True)
        first_rows = tf.cumsum(lengths, exclusive=True)
        size, heads = tf.size(lengths), tf.range(self._num_heads)
        bounds = [size * number // _GROUPS for number in range(_GROUPS + 1)]
        self._groups, taken, slots = [], [], []
        for begin, end in itertools.pairwise(bounds):
            own = tf.gather(lengths, order[begin:end])
            # In a small batch, some groups are empty.
            length = (tf.reduce_max(tf.pad(own, [[0, 1]])) // _LENGTHS + 1) * _LENGTHS
            is_token = tf.sequence_mask(own, length)
            rows = tf.gather(first_rows, order[begin:end])[:, tf.newaxis] + tf.range(length)
            rows = self._or_idle(is_token, rows)[:, tf.newaxis]
            taken.append(tf.reshape(rows * self._num_heads + heads[:, tf.newaxis], [-1]))
            slots.append(tf.fill([end - begin], length))
            # The shape of heads, and the bias of scores, at the length of the group.
            shape = [end - begin, self._num_heads, length]
            self._groups.append((shape, layers.attention_bias(tf.cast(is_token, tf.int32))))
        self._sizes = tf.stack([tf.size(rows) for rows in taken])
        # For each slot in all groups' concatenated [B * N * L], its row among [M * N].
        self._to_groups = tf.concat(taken, axis=0)
        # For each sequence, its number of slots and the first of them.
        slots, back = tf.concat(slots, axis=0), tf.argsort(order)
        first_slots = tf.gather(tf.cumsum(slots * self._num_heads, exclusive=True), back)
        first, step = (tf.gather(of, sequence_of) for of in (first_slots, tf.gather(slots, back)))
        first += tf.range(tf.size(sequence_of)) - tf.gather(first_rows, sequence_of)
        tokens = tf.reshape(first[:, tf.newaxis] + heads * step[:, tf.newaxis], [-1])
        # The last slot of every sequence has no token, so idle rows take it.
        last, idle = tf.size(self._to_groups) - 1, self._num_rows * self._num_heads
        padding = [[0, idle - tf.size(tokens)]]
        # For each of these rows, its slot.
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
        # Sets the idle row and its gradient to 0.
        flat = _move(rows * real, self._row_of, self._position_of)
        return tf.reshape(flat, [*self._shape, rows.shape[-1]])

    def self_attention(self, projections, dropout_prob, site):
        width = projections[0].shape[-1]
        size, to_groups, to_rows = width // self._num_heads, self._to_groups, self._to_rows
        moved = (_move(tf.reshape(x, [-1, size]), to_groups, to_rows) for x in projections)
        parts = zip(*(tf.split(x, self._sizes, num=_GROUPS) for x in moved), strict=True)
        contexts = []
        for number, ((shape, bias), heads) in enumerate(zip(self._groups, parts, strict=True)):
            query, key, value = (tf.reshape(x, [*shape, size]) for x in heads)
            context = layers.attend(query, key, value, bias, dropout_prob, f"{site}/group_{number}")
            contexts.append(tf.reshape(context, [-1, size]))
        context = _move(tf.concat(contexts, axis=0), to_rows, to_groups)
        return tf.reshape(context, [-1, width])


def _flat(positions: tf.Tensor, shape: list) -> tf.Tensor:
    """Converts positions [B, P] or [1, P] in sequences to int32 [B * P] positions in [B * S]."""
    first = tf.range(shape[0]) * shape[1]
    return tf.reshape(positions + first[:, tf.newaxis], [-1])


def _move(x: tf.Tensor, taken: tf.Tensor, back: tf.Tensor) -> tf.Tensor:
    """Returns the rows `taken` of x [M, W]; the gradient takes the rows `back`."""
    with x.graph.gradient_override_map({"GatherV2": _gradient_of_move(back.name)}):
        return tf.gather(x, taken)


@functools.cache
def _gradient_of_move(back: str) -> str:
    """Registers a gradient that takes the rows listed in the tensor `back`; returns its name."""
    # `tf.custom_gradient` would insert operations that are always float32.
    name = f"MoveRows/{back}"

    @tf.RegisterGradient(name)
    def _take_back(operation: tf.Operation, gradient: tf.Tensor):
        return tf.gather(gradient, operation.graph.get_tensor_by_name(back)), None, None

    return name
