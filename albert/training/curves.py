"""Curves for TensorBoard, written as TFRecords of `tf.Event`.

TensorFlow's own writer uses a thread. If the disk is full, that thread prints a traceback, and
the next point raises an unrelated error in some later training step.
"""

from __future__ import annotations

import os
import socket
import time

import tensorflow.compat.v1 as tf

# Seconds until TensorBoard can see a new point.
_BETWEEN_FLUSHES = 10.0


class Curves:
    """Writes the curves of a folder to a new file; a disk error raises `tf.errors.OpError`."""

    def __init__(self, folder: str, suffix: str = ""):
        """Creates the folder, and in it a file whose name ends in `suffix`."""
        os.makedirs(folder, exist_ok=True)
        now = time.time()
        # The process and the suffix keep two files apart that are created in the same second.
        name = f"events.out.tfevents.{now:010.0f}.{socket.gethostname()}.{os.getpid()}{suffix}"
        self._writer = tf.io.TFRecordWriter(os.path.join(folder, name))
        self._flushed = time.monotonic()
        self._write(tf.Event(wall_time=now, file_version="brain.Event:2"))

    def add(self, step: int, **values: float) -> None:
        """Adds a point to each curve named in `values`."""
        points = [tf.Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._write(tf.Event(wall_time=time.time(), step=step, summary=tf.Summary(value=points)))

    def _write(self, event: tf.Event) -> None:
        self._writer.write(event.SerializeToString())
        if time.monotonic() - self._flushed > _BETWEEN_FLUSHES:
            self._writer.flush()
            self._flushed = time.monotonic()

    def close(self) -> None:
        """Flushes the remaining points and closes the file."""
        self._writer.close()
