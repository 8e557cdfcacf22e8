"""Measures the memory of gathering the optimizer's state; see `sharded_steps.py`."""

from __future__ import annotations

import ctypes
import pathlib
import re
from collections.abc import Callable
from unittest import mock

import tensorflow.compat.v1 as tf

from albert.checkpoints import sharded_state
from albert.checkpoints.sharded_state import ShardedState, whole_bytes
from albert.distributed import collectives
from albert.optimizers.sharded import ShardedOptimizer

VARIABLES, ROWS = 8, 1 << 21
# For glibc's mallopt: freed blocks of this size and more return to the kernel at once.
_MMAP_THRESHOLD = -3


def measure(folder: pathlib.Path) -> dict[str, int]:
    """Returns, in bytes: the state of all workers, a variable's moment, and the largest growth of
    this process's resident memory while the state was saved and while it was restored."""
    # Memory in use counts, not memory that an allocator keeps for later.
    assert ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 20)
    # One variable per vector, and one vector at a time.
    with (
        mock.patch.multiple(collectives, _VECTOR_BYTES=4 * ROWS),
        mock.patch.multiple(sharded_state, _RUN_BYTES=4 * ROWS),
        tf.Graph().as_default(),
        tf.Session() as session,
    ):
        shares = ShardedOptimizer(
            [tf.get_variable(f"weights_{n}", [ROWS]) for n in range(VARIABLES)]
        )
        state = ShardedState(str(folder), lambda: shares.state)
        state.begin()
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        # Equal initial values may be one tensor in memory.
        session.run([share.assign_add(tf.ones(share.shape)) for share in tf.local_variables()])
        return {
            "saving": _growth(lambda: _save(state, session, folder)),
            "restoring": _growth(lambda: state.after_create_session(session, None)),
            "state": whole_bytes(shares.state),
            "moment": 4 * ROWS,
        }


def _save(state: ShardedState, session: tf.Session, folder: pathlib.Path) -> None:
    """Makes a checkpoint of the state, which the file `checkpoint` names."""
    if not collectives.is_chief():
        state.take_part(session)
        return
    target, parts = str(folder / "model.ckpt"), state.write(session, str(folder))
    with tf.Graph().as_default(), tf.Session() as merging:
        merged = {"checkpoint_prefixes": parts, "destination_prefix": target}
        merging.run(tf.raw_ops.MergeV2Checkpoints(**merged))
    tf.train.update_checkpoint_state(str(folder), target)


def _growth(do: Callable[[], None]) -> int:
    """Returns by how many bytes this process's memory grows at most meanwhile."""
    # Resets the kernel's record of the peak.
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = _resident("VmRSS")
    do()
    return _resident("VmHWM") - before


def _resident(name: str) -> int:
    status = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(re.search(rf"^{name}:\s*(\d+) kB$", status, re.M)[1])
