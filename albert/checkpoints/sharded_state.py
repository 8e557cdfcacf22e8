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

from albert.checkpoints.checkpoint_files import load_checkpoint, restoring
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


class _Vectors:
    """Operations that gather or restore some shards on all workers at once."""

    def __init__(self, first: int, shares: Sequence[StateShard]):
        """Builds the operations; `first` is the index of the first shard among all."""
        self.contents = [content for share in shares for content in share.contents]
        self._prefix = tf.placeholder(tf.string, [])
        self._wholes, tensors, self._sources, restored = [], [], [], []
        for number, (share, contents) in enumerate(shares, first):
            # On the CPU, so that the checkpoint's values take no accelerator memory.
            value = share.read_value()
            with tf.device("/cpu:0"):
                length = share.shape[0] * collectives.size()
                whole = collectives.all_gather(value, f"state_{number}/saved")
                sizes = [math.prod(shape) for _, shape in contents]
                parts = tf.split(whole, [*sizes, length - sum(sizes)])
                source = tf.placeholder(share.dtype, [length])
                sent = collectives.broadcast(source, f"state_{number}/restored")
                own = tf.split(sent, collectives.size())[collectives.rank()]
            tensors += [tf.reshape(p, s) for p, (_, s) in zip(parts, contents, strict=False)]
            self._wholes.append(whole.op)
            self._sources.append((source, contents))
            restored.append(share.assign(own))
        names = [name for name, _ in self.contents]
        with tf.device("/cpu:0"):
            self._write = tf.raw_ops.SaveV2(
                prefix=self._prefix,
                tensor_names=names,
                shape_and_slices=[""] * len(names),
                tensors=tensors,
            )
        self._restore = tf.group(*restored)

    def gather(self, session: tf.Session, prefix: str | None) -> None:
        """Gathers the values; writes them as a checkpoint unless `prefix` is None."""
        if prefix is None:
            session.run(self._wholes)
        else:
            session.run(self._write, {self._prefix: prefix})

    def read(self, session: tf.Session, reader: tf.train.NewCheckpointReader | None) -> None:
        """Restores all workers' shards from the reader of rank 0; it is None on other ranks."""
        values = {source: np.zeros(source.shape, np.float32) for source, _ in self._sources}
        for source, contents in self._sources:
            if reader is None:
                break
            offset = 0
            for name, shape in contents:
                size = math.prod(shape)
                values[source][offset : offset + size] = reader.get_tensor(name).reshape(size)
                offset += size
        session.run(self._restore, values)


class ShardedState(tf.train.SessionRunHook):
    """Restores a session's shards from the checkpoint that the session starts from, and saves them.

    Every worker needs this hook. Without shards it does nothing.
    """

    def __init__(self, folder: str, shares: Callable[[], Sequence[StateShard]]):
        """Takes the folder of checkpoints, and a function that returns the shards of the graph."""
        self._folder = folder
        self._shares = shares

    def begin(self) -> None:
        shares, first = self._shares(), 0
        most = _RUN_BYTES // collectives.size()
        self._vectors = []
        for group in collectives.fusion_buckets([share.variable for share in shares], most):
            self._vectors.append(_Vectors(first, shares[first : first + len(group)]))
            first += len(group)

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Restores the shards from rank 0's latest checkpoint, if any."""
        if not self._vectors:
            return
        checkpoint = tf.train.latest_checkpoint(self._folder) if collectives.is_chief() else None
        with restoring(checkpoint or self._folder):
            reader = load_checkpoint(checkpoint) if checkpoint else None
            if exchange.broadcast_object(checkpoint is not None):
                for vector in self._vectors:
                    vector.read(session, reader)

    def write(self, session: tf.Session, folder: str) -> list[str]:
        """Writes checkpoints on rank 0 and returns their prefixes; the others call `take_part`."""
        prefixes = [os.path.join(folder, str(number)) for number in range(len(self._vectors))]
        for vector, prefix in zip(self._vectors, prefixes, strict=True):
            vector.gather(session, prefix)
        return prefixes

    def take_part(self, session: tf.Session) -> None:
        """Sends this worker's shards to rank 0, which writes them."""
        for vector in self._vectors:
            vector.gather(session, None)
