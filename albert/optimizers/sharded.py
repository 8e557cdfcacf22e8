"""An optimizer whose state, and optionally gradients, are sharded over the workers.

As in ZeRO (https://arxiv.org/abs/1910.02054), each of N workers stores an N-th of the moments,
receives that N-th of the mean gradients and updates that N-th of the weights. Then all workers
gather the updated weights. The result is the same as without sharding. With "state" (stage 1), the
gradients of accumulated batches are summed before they are sent. With "gradients" (stage 2), the
gradients of every batch are sent, so that a worker accumulates only its N-th.

Consecutive variables form a bucket: their concatenated values, padded with zeros to a multiple of
N. The worker with rank r has the r-th of N shards of each bucket. A bucket is sent while the
backward pass still computes the gradients of the layers below.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from albert.checkpoints.sharded_state import StateShard
from albert.distributed import collectives
from albert.optimizers.gradients import local_zeros


class _Shard(NamedTuple):
    """A worker's piece of variable `number` of all, from element `start` of its flat values."""

    number: int
    name: str
    start: int
    size: int


# A piece, its weights and their update at a rate of 1.
_Update = tuple[_Shard, tf.Tensor, tf.Tensor]


class _Bucket(NamedTuple):
    """Joined variables, with this worker's `pieces` and its shards of `share` elements each."""

    variables: list[tf.Variable]
    pieces: list[_Shard]
    share: int
    moments: list[StateShard]
    name: str

    @classmethod
    def of(cls, number: int, variables: list[tf.Variable], first: int) -> _Bucket:
        """Returns a bucket of variables; `first` is the index of the first one among all."""
        sizes = [variable.shape.num_elements() for variable in variables]
        share = -(-sum(sizes) // collectives.size())
        begin, pieces, offset = collectives.rank() * share, [], 0
        for index, (variable, size) in enumerate(zip(variables, sizes, strict=True)):
            start, end = max(begin - offset, 0), min(begin + share - offset, size)
            if start < end:
                pieces.append(_Shard(first + index, variable.op.name, start, end - start))
            offset += size
        name = f"sharded_optimizer/{number}"
        moments = []
        for slot in ("adam_m", "adam_v"):
            contents = [(f"{v.op.name}/{slot}", v.shape.as_list()) for v in variables]
            moments.append(StateShard(local_zeros(f"{name}/{slot}", [share]), contents))
        return cls(variables, pieces, share, moments, name)

    def weights(self) -> list[tf.Tensor]:
        """Returns this worker's pieces of the variables."""
        by_name = {variable.op.name: variable for variable in self.variables}
        return [
            tf.slice(tf.reshape(by_name[piece.name], [-1]), [piece.start], [piece.size])
            for piece in self.pieces
        ]

    def cut(self, share: tf.Tensor) -> list[tf.Tensor]:
        """Splits a shard into its pieces, without the padding."""
        sizes = [piece.size for piece in self.pieces]
        return tf.split(share, [*sizes, self.share - sum(sizes)])[:-1]


class ShardedOptimizer:
    """This worker's shards of variables and gradients, and of the moments, in `state`."""

    def __init__(self, variables: Sequence[tf.Variable], dtype: tf.DType | None = None):
        """Creates the shards; `variables` are in the order of their gradients, sent as `dtype`."""
        self._dtype = dtype
        self._buckets, first = [], 0
        for number, group in enumerate(collectives.fusion_buckets(variables)):
            self._buckets.append(_Bucket.of(number, group, first))
            first += len(group)
        self.state = [moment for bucket in self._buckets for moment in bucket.moments]

    def scatter(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns this worker's shards of the mean gradients over the workers, by bucket."""
        remaining, shares = iter(gradients), []
        for bucket in self._buckets:
            values = [next(remaining) for _ in bucket.variables]
            name = f"{bucket.name}/gradients"
            shares.append(collectives.reduce_scatter_mean(values, name, self._dtype))
        return shares

    def all_reduce_metrics_and_norm(
        self, metrics: tf.Tensor, shares: Sequence[tf.Tensor], left_out: Sequence[bool]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the means of metrics over the workers, and the sum of the gradients' squares.

        Those are a vector of `StepMetrics`, and shards from `scatter`. `left_out` says for each
        variable whether its gradient is excluded from the sum.
        """
        squares = [
            2 * tf.nn.l2_loss(value)
            for bucket, share in zip(self._buckets, shares, strict=True)
            for piece, value in zip(bucket.pieces, bucket.cut(share), strict=True)
            if not left_out[piece.number]
        ]
        own = tf.add_n([tf.constant(0.0), *squares]) * collectives.size()
        # A fixed name, because automatic names may differ between the graphs of the workers.
        together = tf.concat([metrics, [own]], axis=0, name="all_reduce_metrics_and_norm")
        (means,) = collectives.all_reduce_mean([together])
        return means[:-1], means[-1]

    def apply(
        self, optimizer, shares: Sequence[tf.Tensor], factor: tf.Tensor, step: tf.Tensor
    ) -> tf.Operation:
        """Returns the op that updates this worker's shards and gathers the variables.

        `shares` are the gradients' shards, from `scatter`. The step is counted from 0.
        """
        factors = optimizer.factors(step)
        updates: list[list[_Update]] = []
        assignments: list[tf.Operation] = []
        for bucket, share in zip(self._buckets, shares, strict=True):
            # One bucket at a time, as the optimizer does with variables, to save memory.
            with tf.control_dependencies(assignments[-1:]):
                m, v = (moment.variable for moment in bucket.moments)
                next_m, next_v, update = optimizer.next_state(share * factor, m, v, factors)
                parts = zip(bucket.pieces, bucket.weights(), bucket.cut(update), strict=True)
                updates.append([_with_decay(optimizer, *part) for part in parts])
            with tf.control_dependencies([update for *_, update in updates[-1]]):
                assignments.append(tf.group(m.assign(next_m), v.assign(next_v)))
        rates = self._rates(optimizer, updates)
        for bucket, own in zip(self._buckets, updates, strict=True):
            after = [weight - rates(piece.name) * update for piece, weight, update in own]
            assignments += _gather(bucket, after)
        return tf.group(*assignments)

    def _rates(self, optimizer, updates: Sequence[Sequence[_Update]]) -> Callable[[str], tf.Tensor]:
        """Returns a function from a variable's name to its rate, with norms over all workers."""
        variables = [variable for bucket in self._buckets for variable in bucket.variables]
        adapted = [v.op.name for v in variables if optimizer.adapts(v.op.name)]
        if not adapted:
            return lambda name: optimizer.learning_rate
        zero = tf.constant(0.0)
        squares = {name: [zero, zero] for name in adapted}
        for piece, *values in itertools.chain.from_iterable(updates):
            if piece.name in squares:
                squares[piece.name] = [2 * tf.nn.l2_loss(value) for value in values]
        sums = collectives.all_reduce_sum(
            tf.stack([squares[name] for name in adapted], name="norms")
        )
        ratios = tf.unstack(optimizer.trust_ratio(*tf.unstack(tf.sqrt(sums), axis=1)))
        ratios = dict(zip(adapted, ratios, strict=True))
        return lambda name: ratios.get(name, 1.0) * optimizer.learning_rate


def _with_decay(optimizer, piece: _Shard, weight: tf.Tensor, update: tf.Tensor) -> _Update:
    decay = optimizer.decay_of(piece.name)
    return piece, weight, update + decay * weight if decay else update


def _gather(bucket: _Bucket, pieces: Sequence[tf.Tensor]) -> list[tf.Operation]:
    """Returns the ops that gather a bucket's new values and assign them to its variables."""
    own = collectives.flatten_and_concat(pieces, bucket.share)
    values = collectives.all_gather(own, f"{bucket.name}/weights")
    sizes = [variable.shape.num_elements() for variable in bucket.variables]
    parts = tf.split(values, [*sizes, values.shape[0] - sum(sizes)])
    return [
        variable.assign(tf.reshape(part, variable.shape))
        for variable, part in zip(bucket.variables, parts, strict=False)
    ]
