"""State that is shared out over the workers, in checkpoints that look as if it were not.

A share is a local variable, a flat part of a vector that has the values of several variables one
after the other. In a checkpoint these variables are under their own names, in their own shapes, so
that a run goes on with any number of workers. They are gathered and read part by part: that takes
the memory of a few parts, of 64 MB each or the size of the largest variable.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import load_checkpoint, restoring
from albert.core.errors import UserError
from albert.distributed import collectives

# What is gathered at once, as each time workers wait for each other; or a single larger vector.
_RUN_BYTES = 64 << 20


class StateShard(NamedTuple):
    """What this worker has of some state.

    Attributes:
      variable: local, of the same length on every worker; all together end in zeros, as many as
        are left.
      contents: names and shapes of the variables that all workers' together are.
    """

    variable: tf.Variable
    contents: list[tuple[str, list[int]]]


def whole_bytes(shares: Sequence[StateShard]) -> int:
    """Returns the bytes of a checkpoint that the shards of all workers take together."""
    return sum(
        share.variable.dtype.size * math.prod(shape)
        for share in shares
        for _, shape in share.contents
    )


class _Vectors:
    """The operations on some shares and those of the other workers, which are run together."""

    def __init__(self, first: int, shares: Sequence[StateShard]):
        """Builds them; `first` is the number of the first share among all."""
        self.contents = [content for share in shares for content in share.contents]
        self._prefix = tf.placeholder(tf.string, [])
        self._wholes, tensors, self._given, restored = [], [], [], []
        for number, (share, contents) in enumerate(shares, first):
            # Not where a checkpoint's values would take an accelerator's memory.
            value = share.read_value()
            with tf.device("/cpu:0"):
                length = share.shape[0] * collectives.size()
                whole = collectives.all_gather(value, f"state_{number}/saved")
                sizes = [math.prod(shape) for _, shape in contents]
                parts = tf.split(whole, [*sizes, length - sum(sizes)])
                given = tf.placeholder(share.dtype, [length])
                sent = collectives.broadcast(given, f"state_{number}/restored")
                own = tf.split(sent, collectives.size())[collectives.rank()]
            tensors += [tf.reshape(p, s) for p, (_, s) in zip(parts, contents, strict=False)]
            self._wholes.append(whole.op)
            self._given.append((given, contents))
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
        """Gathers the values; writes them as a checkpoint where there is a prefix."""
        if prefix is None:
            session.run(self._wholes)
        else:
            session.run(self._write, {self._prefix: prefix})

    def read(self, session: tf.Session, reader: tf.train.NewCheckpointReader | None) -> None:
        """Gives all workers their shares of what one of them, rank 0, has a reader of."""
        values = {given: np.zeros(given.shape, np.float32) for given, _ in self._given}
        for given, contents in self._given:
            if reader is None:
                break
            place = 0
            for name, shape in contents:
                size = math.prod(shape)
                values[given][place : place + size] = reader.get_tensor(name).ravel()
                place += size
        session.run(self._restore, values)


class ShardedState(tf.train.SessionRunHook):
    """Restores a session's shares from the checkpoint that the session begins with, and saves them.

    All workers have it. There may be no shares, and then it does nothing.
    """

    def __init__(self, folder: str, shares: Callable[[], Sequence[StateShard]]):
        """Sets up, before there is a graph.

        Args:
          folder: whose file `checkpoint` names the checkpoint; rank 0's counts.
          shares: returns those of the session's graph, once it is built.
        """
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
        """Restores the shares, if there is a checkpoint.

        Raises:
          UserError: it does not have the variables, in their shapes.
        """
        if not self._vectors:
            return
        checkpoint = tf.train.latest_checkpoint(self._folder) if collectives.is_chief() else None
        with restoring(checkpoint or self._folder):
            reader = _reader(checkpoint, self._vectors) if checkpoint else None
            if collectives.broadcast_object(checkpoint is not None):
                for vector in self._vectors:
                    vector.read(session, reader)

    def write(self, session: tf.Session, folder: str) -> list[str]:
        """Writes the state as checkpoints in a folder, on rank 0; the others `take_part`.

        Returns:
          Their prefixes.
        """
        prefixes = [os.path.join(folder, str(number)) for number in range(len(self._vectors))]
        for vector, prefix in zip(self._vectors, prefixes, strict=True):
            vector.gather(session, prefix)
        return prefixes

    def take_part(self, session: tf.Session) -> None:
        """Does a worker's part of what rank 0 writes."""
        for vector in self._vectors:
            vector.gather(session, None)


def _reader(checkpoint: str, vectors: Sequence[_Vectors]) -> tf.train.NewCheckpointReader:
    """Returns a reader of a checkpoint that has what the vectors need.

    Raises:
      UserError: it does not.
    """
    reader = load_checkpoint(checkpoint)
    shapes = reader.get_variable_to_shape_map()
    for vector in vectors:
        for name, shape in vector.contents:
            if shapes.get(name) != shape:
                raise UserError(
                    f"{checkpoint} does not fit the model or is damaged: {name} is "
                    f"{shapes.get(name, 'missing')}, the model has {shape}"
                )
    return reader
