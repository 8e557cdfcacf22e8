"""Locks between processes, on one machine or several with a common file system."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import filelock
import tensorflow.compat.v1 as tf

from runtime.errors import UserError

# A holder refreshes its claim every few seconds. One that has not done so for this long is taken
# for dead, so that a killed process keeps nobody waiting for longer.
_STALE_SECONDS = 20.0
_REFRESH_SECONDS = 4.0


@contextlib.contextmanager
def one_at_a_time(path: str) -> Iterator[bool]:
    """Holds the lock `path.lock` for the length of the block; waits while another process has it.

    Yields whether it had to wait.

    It is a file that exists while the lock is held, not an `flock`, which network volumes refuse or
    grant to everybody. Should a holder be taken for dead that is not, two work at a time: what the
    lock protects must be written atomically, so that this costs time only.
    """
    lock = filelock.SoftFileLease(
        path + ".lock", lease_duration=_STALE_SECONDS, heartbeat_interval=_REFRESH_SECONDS
    )
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        waited = _acquire(lock, path)
    except OSError as e:
        raise UserError(f"{path} cannot be written: {e.strerror}") from e
    try:
        yield waited
    finally:
        lock.release()


def _acquire(lock: filelock.SoftFileLease, path: str) -> bool:
    try:
        lock.acquire(timeout=0)
        return False
    except filelock.Timeout:
        tf.logging.info("Waiting for another process that makes %s", path)
        lock.acquire()
        return True
