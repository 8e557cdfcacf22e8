"""Measures what gathering the optimizer's state takes of memory.

  mpirun -np N python tests/programs/gathered_state.py FOLDER

FOLDER/found.json has, in bytes: the state of all workers, the moment of a variable, and by how much
rank 0's resident memory grew at most while it was saved and while it was restored.
"""

from __future__ import annotations

import ctypes
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import runtime  # noqa: F401  First: it silences what TensorFlow prints when it is imported.

import tensorflow.compat.v1 as tf  # isort: skip

from runtime import distributed
from runtime.checkpoints import sharded_state
from runtime.checkpoints.sharded_state import ShardedState, whole_bytes
from sharded_optimizer import Shares

VARIABLES, ROWS = 8, 1 << 22
# Of glibc's mallopt: blocks from this size on are the kernel's again as soon as they are freed.
_MMAP_THRESHOLD = -3


def main(folder: pathlib.Path) -> None:
    # What counts is the memory in use, and not what an allocator keeps for later.
    assert ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 20)
    distributed.start(use_horovod=True)
    distributed.connect()
    # A variable a vector, a vector at once.
    distributed._VECTOR_BYTES = sharded_state._RUN_BYTES = 4 * ROWS
    with tf.Graph().as_default() as graph, tf.Session() as session:
        variables = [tf.get_variable(f"weights_{n}", [ROWS]) for n in range(VARIABLES)]
        Shares(variables)
        state = ShardedState(str(folder))
        state.begin()
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        # Equal initial values may be one tensor in memory.
        session.run([share.assign_add(tf.ones(share.shape)) for share in tf.local_variables()])
        saving = growth(lambda: save(state, session, folder))
        restoring = growth(lambda: state.after_create_session(session, None))
        found = {"state": whole_bytes(graph), "moment": 4 * ROWS}
    if distributed.is_chief():
        found |= {"saving": saving, "restoring": restoring}
        (folder / "found.json").write_text(json.dumps(found))


def save(state: ShardedState, session: tf.Session, folder: pathlib.Path) -> None:
    """Makes a checkpoint of the state, which the file `checkpoint` names."""
    if not distributed.is_chief():
        state.take_part(session)
        return
    target = str(folder / "model.ckpt")
    with tf.Graph().as_default(), tf.Session() as merging:
        merging.run(
            tf.raw_ops.MergeV2Checkpoints(
                checkpoint_prefixes=state.write(session, str(folder)), destination_prefix=target
            )
        )
    tf.train.update_checkpoint_state(str(folder), target)


def growth(do) -> int:
    """How much more memory this process has at most in the meantime than before, in bytes."""
    # The kernel begins to note the highest anew.
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    do()
    return resident("VmHWM") - before


def resident(name: str) -> int:
    status = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(re.search(rf"^{name}:\s*(\d+) kB$", status, re.M)[1])


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
