"""An optimizer whose state, and whose gradients, are shared out over the workers.

As in ZeRO (https://arxiv.org/abs/1910.02054): each of N workers has an N-th of the moments, gets
that N-th of the gradients' means, updates that N-th of the weights, and all of them gather what
the others have updated. So the same is computed as if each did all of it. With "state", stage 1,
the gradients of accumulated batches are added up before they are sent; with "gradients", stage 2,
those of every batch are sent, so that a worker adds up its N-th alone.

Neighbouring variables are cut together: their values one after the other are a bucket, with zeros
at its end up to a multiple of N, of which a worker has one N-th, at the place of its rank. A bucket
is sent while the backward pass still computes those of the layers below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from albert.checkpoints.sharded_state import StateShard
from albert.distributed import collectives
from albert.optimizers.gradients import local_zeros

NONE, STATE, GRADIENTS = "none", "state", "gradients"


class _Shard(NamedTuple):
    """What a worker has of a variable, in elements.

    Attributes:
      number: of the variable, among all.
      name: of the variable.
      start: where it begins in the variable.
      size: how long it is.
    """

    number: int
    name: str
    start: int
    size: int


class _Bucket(NamedTuple):
    """Neighbouring variables one after the other.

    Attributes:
      variables: the variables.
      pieces: what this worker has of them, without the zeros.
      share: elements that each worker has, with the zeros.
      moments: this worker's shares of them, [share] each; checkpoints have them by variable.
      name: by which workers find each other's.
    """

    variables: list[tf.Variable]
    pieces: list[_Shard]
    share: int
    moments: list[StateShard]
    name: str

    @classmethod
    def of(cls, number: int, variables: list[tf.Variable], first: int) -> _Bucket:
        """Returns a bucket of variables of which the first has this number among all."""
        sizes = [variable.shape.num_elements() for variable in variables]
        share = -(-sum(sizes) // collectives.size())
        begin, pieces, place = collectives.rank() * share, [], 0
        for index, (variable, size) in enumerate(zip(variables, sizes, strict=True)):
            start, end = max(begin - place, 0), min(begin + share - place, size)
            if start < end:
                pieces.append(_Shard(first + index, variable.op.name, start, end - start))
            place += size
        name = f"sharded_optimizer/{number}"
        moments = [_moment(name, slot, share, variables) for slot in ("adam_m", "adam_v")]
        return cls(variables, pieces, share, moments, name)

    def weights(self) -> list[tf.Tensor]:
        """Returns this worker's pieces of the variables."""
        by_name = {variable.op.name: variable for variable in self.variables}
        return [
            tf.slice(tf.reshape(by_name[piece.name], [-1]), [piece.start], [piece.size])
            for piece in self.pieces
        ]

    def cut(self, share: tf.Tensor) -> list[tf.Tensor]:
        """Returns a share's pieces."""
        sizes = [piece.size for piece in self.pieces]
        return tf.split(share, [*sizes, self.share - sum(sizes)])[:-1]


def _moment(name: str, slot: str, share: int, variables: Sequence[tf.Variable]) -> StateShard:
    contents = [(f"{v.op.name}/{slot}", v.shape.as_list()) for v in variables]
    return StateShard(local_zeros(f"{name}/{slot}", [share]), contents)


class ShardedOptimizer:
    """Variables, gradients and moments as this worker has its share of them.

    Attributes:
      state: the moments.
    """

    def __init__(self, variables: Sequence[tf.Variable], dtype: tf.DType | None = None):
        """ShardedOptimizer out variables and makes their moments.

        Args:
          variables: in the order of their gradients.
          dtype: what gradients are sent as, instead of float32.
        """
        self._dtype = dtype
        self._buckets, first = [], 0
        for number, group in enumerate(collectives.fusion_buckets(variables)):
            self._buckets.append(_Bucket.of(number, group, first))
            first += len(group)
        self.state = [moment for bucket in self._buckets for moment in bucket.moments]

    def scatter(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns this worker's shares of the means over the workers, by bucket."""
        given, shares = iter(gradients), []
        for bucket in self._buckets:
            values = [next(given) for _ in bucket.variables]
            name = f"{bucket.name}/gradients"
            shares.append(collectives.reduce_scatter_mean(values, name, self._dtype))
        return shares

    def all_reduce_metrics_and_norm(
        self, metrics: tf.Tensor, shares: Sequence[tf.Tensor], left_out: Sequence[bool]
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the means of metrics over the workers, and the sum of all gradients' squares.

        Args:
          metrics: a bucket, of this worker.
          shares: from `scatter`.
          left_out: for each variable, whether its gradient does not count.
        """
        squares = [
            2 * tf.nn.l2_loss(value)
            for bucket, share in zip(self._buckets, shares, strict=True)
            for piece, value in zip(bucket.pieces, bucket.cut(share), strict=True)
            if not left_out[piece.number]
        ]
        own = tf.add_n([tf.constant(0.0), *squares]) * collectives.size()
        # Graphs differ from worker to worker: by its name they find it.
        together = tf.concat([metrics, [own]], axis=0, name="all_reduce_metrics_and_norm")
        (means,) = collectives.all_reduce_mean([together])
        return means[:-1], means[-1]

    def apply(
        self, optimizer, shares: Sequence[tf.Tensor], factor: tf.Tensor, step: tf.Tensor
    ) -> tf.Operation:
        """Returns the op that updates this worker's shares and gathers the variables.

        Args:
          optimizer: an `AdamWeightDecayOptimizer`.
          shares: of the gradients, from `scatter`.
          factor: that the gradients are multiplied by.
          step: counted from 0.
        """
        updates, weights = [], []
        assignments: list[tf.Operation] = []
        for bucket, share in zip(self._buckets, shares, strict=True):
            # One bucket after the other, as the optimizer does it with variables.
            with tf.control_dependencies(assignments[-1:]):
                m, v = (moment.variable for moment in bucket.moments)
                next_m, next_v, update = optimizer.next_state(share * factor, m, v, step)
                own = bucket.weights()
                updates.append(_with_decay(optimizer, bucket, own, bucket.cut(update)))
                weights.append(own)
            with tf.control_dependencies(updates[-1]):
                assignments.append(tf.group(m.assign(next_m), v.assign(next_v)))
        rates = self._rates(optimizer, weights, updates)
        for bucket, own, of_vector in zip(self._buckets, weights, updates, strict=True):
            pairs = zip(bucket.pieces, own, of_vector, strict=True)
            after = [weight - rates(piece.name) * update for piece, weight, update in pairs]
            assignments += _gather(bucket, after)
        return tf.group(*assignments)

    def _rates(
        self,
        optimizer,
        weights: Sequence[Sequence[tf.Tensor]],
        updates: Sequence[Sequence[tf.Tensor]],
    ) -> Callable[[str], tf.Tensor]:
        """Returns a function from a variable's name to its learning rate.

        The norms of a variable are those of the workers' pieces together.
        """
        variables = [variable for bucket in self._buckets for variable in bucket.variables]
        adapted = [v.op.name for v in variables if optimizer.adapts(v.op.name)]
        if not adapted:
            return lambda name: optimizer.learning_rate
        zero = tf.constant(0.0)
        squares = {name: [zero, zero] for name in adapted}
        for bucket, own, of_vector in zip(self._buckets, weights, updates, strict=True):
            for piece, *values in zip(bucket.pieces, own, of_vector, strict=True):
                if piece.name in squares:
                    squares[piece.name] = [2 * tf.nn.l2_loss(value) for value in values]
        sums = collectives.all_reduce_sum(
            tf.stack([squares[name] for name in adapted], name="norms")
        )
        ratios = tf.unstack(optimizer.trust_ratio(*tf.unstack(tf.sqrt(sums), axis=1)))
        ratios = dict(zip(adapted, ratios, strict=True))
        return lambda name: ratios.get(name, 1.0) * optimizer.learning_rate


def _with_decay(
    optimizer, bucket: _Bucket, weights: Sequence[tf.Tensor], updates: Sequence[tf.Tensor]
) -> list[tf.Tensor]:
    """Returns the updates of a bucket's pieces together with the decay of the weights."""
    decays = [optimizer.decay_of(piece.name) for piece in bucket.pieces]
    return [
        update + decay * weight if decay else update
        for decay, weight, update in zip(decays, weights, updates, strict=True)
    ]


def _gather(bucket: _Bucket, pieces: Sequence[tf.Tensor]) -> list[tf.Operation]:
    """Returns the ops that give a bucket's variables the values that the workers have of them."""
    own = collectives.flatten_and_concat(pieces, bucket.share)
    values = collectives.all_gather(own, f"{bucket.name}/weights")
    sizes = [variable.shape.num_elements() for variable in bucket.variables]
    parts = tf.split(values, [*sizes, values.shape[0] - sum(sizes)])
    return [
        variable.assign(tf.reshape(part, variable.shape))
        for variable, part in zip(bucket.variables, parts, strict=False)
    ]
