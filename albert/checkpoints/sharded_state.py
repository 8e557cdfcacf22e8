"""Saves and restores state that is sharded over the workers.

A shard is a local variable: a part of a flat vector with the concatenated values of several
variables. A checkpoint has these variables under their own names and in their own shapes, so that a
run can resume with any number of workers. State is gathered and read in parts, so this takes the
memory of a few parts, each of 64 MB or the size of the largest variable.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import load_checkpoint, restoring, write_values
from albert.distributed import collectives, exchange

# Bytes to gather at once, because workers wait for each other each time. A single vector may be
# larger.
_RUN_BYTES = 64 << 20


class StateShard(NamedTuple):
    """This worker's shard of some state, with the names and shapes of the variables in all shards.

    It has one length on all workers; zeros pad the end of the joined shards.
    """

    variable: tf.Variable
    contents: list[tuple[str, list[int]]]


def whole_bytes(shares: Sequence[StateShard]) -> int:
    """Returns the bytes that the shards of all workers take in a checkpoint."""
    return sum(
        share.variable.dtype.size * math.prod(shape)
        for share in shares
        for _, shape in share.contents
    )


class ShardedState(tf.train.SessionRunHook):
    """Restores a session's shards from the checkpoint that the session starts from, and saves them.

    Every worker needs this hook. Without shards it does nothing.
    """

    def __init__(self, folder: str, shares: Callable[[], Sequence[StateShard]]):
        """Takes the folder of checkpoints, and a function that returns the shards of the graph."""
        self._folder = folder
        self._shares = shares

    def begin(self) -> None:
        shares, self._groups = self._shares(), list[Sequence[StateShard]]()
        most, first = _RUN_BYTES // collectives.size(), 0
        for group in collectives.fusion_buckets([share.variable for share in shares], most):
            self._groups.append(shares[first : first + len(group)])
            first += len(group)

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Restores the shards from rank 0's latest checkpoint, if any."""
        if not self._groups:
            return
        checkpoint = tf.train.latest_checkpoint(self._folder) if collectives.is_chief() else None
        with restoring(checkpoint or self._folder):
            reader = load_checkpoint(checkpoint) if checkpoint else None
            if not exchange.broadcast_object(checkpoint is not None):
                return
            for group in self._groups:
                # Only rank 0 has values to send.
                sent = [_read(share, reader) for share in group] if reader else []
                received, *_ = exchange.gather_arrays(sent, np.dtype(np.float32))
                values = {}
                for share, whole in zip(group, received, strict=True):
                    own = np.split(whole, collectives.size())[collectives.rank()]
                    values[share.variable.initializer.inputs[1]] = own
                session.run([share.variable.initializer for share in group], values)

    def write(self, session: tf.Session, folder: str) -> list[str]:
        """Writes checkpoints on rank 0 and returns their prefixes; the others call `take_part`."""
        prefixes = [os.path.join(folder, str(number)) for number in range(len(self._groups))]
        for group, prefix in zip(self._groups, prefixes, strict=True):
            values = dict[str, np.ndarray]()
            for share, whole in zip(group, _gather(session, group), strict=True):
                end = 0
                for name, shape in share.contents:
                    begin, end = end, end + math.prod(shape)
                    values[name] = whole[begin:end].reshape(shape)
            write_values(prefix, dict.fromkeys(values, tf.float32), values.__getitem__)
        return prefixes

    def take_part(self, session: tf.Session) -> None:
        """Sends this worker's shards to rank 0, which writes them."""
        for group in self._groups:
            _gather(session, group)


def _gather(session: tf.Session, group: Sequence[StateShard]) -> list[np.ndarray]:
    """Returns the joined shards of all workers, for each variable of a group."""
    own = session.run([share.variable for share in group])
    by_rank = exchange.gather_arrays(own, np.dtype(np.float32))
    return [np.concatenate(shards) for shards in zip(*by_rank, strict=True)]


def _read(share: StateShard, reader: tf.train.NewCheckpointReader) -> np.ndarray:
    """Returns the joined values of all shards from a checkpoint."""
    length = share.variable.shape[0] * collectives.size()
    values = [reader.get_tensor(name).reshape(math.prod(shape)) for name, shape in share.contents]
    return np.concatenate([*values, np.zeros(length - sum(map(len, values)), np.float32)])
