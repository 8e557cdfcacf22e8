"""TensorBoard's curves, in files that it reads: TFRecords of `tf.Event`.

TensorFlow's own writer has a thread, in which a full disk ends as a traceback and the points that
follow as another error in whatever training step is next.
"""

from __future__ import annotations

import os
import socket
import time

import tensorflow.compat.v1 as tf

# Seconds after which what was written is there for TensorBoard.
_BETWEEN_FLUSHES = 10.0


class Curves:
    """The curves of a folder, in a new file; at an error of the disk a `tf.errors.OpError`."""

    def __init__(self, folder: str, suffix: str = ""):
        """Makes the folder and a file whose name ends in `suffix`."""
        os.makedirs(folder, exist_ok=True)
        now = time.time()
        # Two files of a second would else be one.
        name = f"events.out.tfevents.{now:010.0f}.{socket.gethostname()}.{os.getpid()}{suffix}"
        self._writer = tf.io.TFRecordWriter(os.path.join(folder, name))
        self._flushed = time.monotonic()
        self._write(tf.Event(wall_time=now, file_version="brain.Event:2"))

    def add(self, step: int, **values: float) -> None:
        """Adds a point to each of the curves that `values` names."""
        points = [tf.Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._write(tf.Event(wall_time=time.time(), step=step, summary=tf.Summary(value=points)))

    def _write(self, event: tf.Event) -> None:
        self._writer.write(event.SerializeToString())
        if time.monotonic() - self._flushed > _BETWEEN_FLUSHES:
            self._writer.flush()
            self._flushed = time.monotonic()

    def close(self) -> None:
        """Writes what is not written yet."""
        self._writer.close()
