"""The workers of a job that `mpirun` or another launcher started, and their collectives.

Rank and size come from the launcher's environment, so they are known before the workers connect.
A job reads files and makes feature files, also in forked processes, before MPI starts. Workers do
not wait for each other before `connect`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import types
from collections.abc import Iterable, Sequence

import tensorflow.compat.v1 as tf

from albert.core import signals
from albert.core.errors import FlagError, UserError
from albert.distributed import launcher

# By default, each worker's communication thread polls the others every millisecond and spins until
# they answer, which costs a third of the time of a worker with one core. These variables let it
# yield, and poll every 50 ms. Fusion is off because the tensors are already joined to vectors.
_SPARING = {"OMPI_MCA_mpi_yield_when_idle": "1", "HOROVOD_CYCLE_TIME": "50"}
_SPARING |= {"HOROVOD_FUSION_THRESHOLD": "0"}
_INSTALL = "`make horovod` installs it"
_REBUILD = (
    "build it for the TensorFlow and the MPI of this environment: "
    "`rm -rf .wheels .venv/installed-horovod && make horovod`"
)
# Gradients are sent in vectors of at most this size, each as soon as its gradients are ready. From
# 32 MB on, Open MPI's reduce-scatter takes 3 times as long per byte, because it allocates memory
# for each vector.
_VECTOR_BYTES = 16 << 20


_worker = launcher.Worker()
# The module `horovod.tensorflow`; empty until `connect` loads it.
_horovod = types.ModuleType("horovod.tensorflow")


def join_job(use_horovod: bool) -> None:
    """Makes this process a worker of its job, without waiting for the others.

    Raises a `FlagError` if there are several but Horovod is off, a `UserError` if it is missing.
    """
    global _worker
    if not use_horovod:
        started = launcher.started
        if started.size > 1:
            raise FlagError(
                f"{started.launcher} started {started.size} processes, but --use_horovod is off: "
                "each would do the whole job and overwrite the others' files; add "
                "--use_horovod=true or start one process"
            )
        return
    try:
        # `connect` imports `horovod.tensorflow`, because Habana's needs the bridge loaded first.
        import horovod  # noqa: F401
    except ImportError as e:
        raise UserError(f"--use_horovod=true needs Horovod ({e}); {_INSTALL}") from e
    if launcher.started.launcher is None:
        tf.logging.warning("--use_horovod=true without mpirun: this is the only worker")
    _worker = launcher.started


def description() -> str:
    """Returns the version of Horovod and the libraries it was built with, or how to install it."""
    if importlib.util.find_spec("horovod") is None:
        return f"not installed; {_INSTALL}"
    try:
        hvd = _load()
    except UserError as e:
        return str(e)
    ways = {"MPI": hvd.mpi_built(), "Gloo": hvd.gloo_built(), "NCCL": hvd.nccl_built()}
    built = ", ".join(name for name, is_built in ways.items() if is_built) or "nothing"
    version = importlib.metadata.version("habana-horovod" if is_habana_horovod() else "horovod")
    return f"{version}, built with {built}"


def _load() -> types.ModuleType:
    """Returns `horovod.tensorflow`; raises a `UserError` if its libraries do not load."""
    try:
        import horovod.tensorflow
    except (ImportError, OSError, tf.errors.OpError) as e:
        raise UserError(f"Horovod cannot be loaded ({' '.join(str(e).split())}); {_REBUILD}") from e
    return horovod.tensorflow


def connect(on_cpu: bool = True) -> None:
    """Waits for the other workers; from here on, all must run the same collective operations.

    `on_cpu`: whether the workers compute on the cores on which communication would spin. Raises a
    `UserError` if Horovod does not load, or its rank or size differs from the launcher's.
    """
    global _horovod
    if size() == 1:
        return
    for name, value in _SPARING.items() if on_cpu else ():
        os.environ.setdefault(name, value)
    _horovod = _load()
    _horovod.init()
    # MPI replaces some signal handlers.
    signals.reinstall()
    if (_horovod.rank(), _horovod.size()) != (rank(), size()):
        raise UserError(
            f"{_worker.launcher} started worker {rank()} of {size()}, but Horovod sees worker "
            f"{_horovod.rank()} of {_horovod.size()}; build Horovod with this MPI: {_INSTALL}"
        )
    tf.logging.info("%d workers", size())


def rank() -> int:
    """Returns the rank of this worker, from 0."""
    return _worker.rank


def local_rank() -> int:
    """Returns the rank of this worker among those of its host, from 0."""
    return _worker.local_rank


def local_size() -> int:
    """Returns the number of workers on this host."""
    return _worker.local_size


def size() -> int:
    """Returns the number of workers."""
    return _worker.size


def is_chief() -> bool:
    """Returns whether this worker is rank 0, which writes the files."""
    return rank() == 0


def is_habana_horovod() -> bool:
    """Returns whether this environment has Habana's Horovod."""
    return any(importlib.metadata.distributions(name="habana-horovod"))


def all_reduce_mean(tensors: Sequence[tf.Tensor], dtype: tf.DType | None = None) -> list[tf.Tensor]:
    """Returns the means of dense float32 tensors over the workers.

    The tensors are joined to a few long vectors, in order. A long vector is sent faster than many
    small ones, its sum does not depend on which tensor is ready first, and its all-reduce has a
    kernel on every device, unlike Horovod's grouped all-reduce. All operations are in the separate
    name scope `mean_over_workers`, which distinguishes them from the model's in a bfloat16
    configuration. The shapes are known and the same on every worker; `dtype` is the type in which
    the tensors are sent, None for float32.
    """
    if size() == 1:
        return list(tensors)
    # Horovod matches the tensors of different workers by name.
    name = f"{tensors[0].op.name}_and_{len(tensors) - 1}".replace("/", "_")
    results = []
    with tf.name_scope("mean_over_workers"):
        for number, group in enumerate(fusion_buckets(tensors)):
            vector = flatten_and_concat(group)
            sent = tf.cast(vector, dtype or vector.dtype)
            mean = _horovod.allreduce(sent, op=_horovod.Average, name=f"{name}_{number}")
            sizes = [tensor.shape.num_elements() for tensor in group]
            parts = tf.split(tf.cast(mean, vector.dtype), sizes)
            results += [tf.reshape(p, t.shape) for p, t in zip(parts, group, strict=True)]
    return results


def all_reduce_sum(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the sum of a small tensor over the workers, computed on the host."""
    if size() == 1:
        return tensor
    with tf.device("/cpu:0"):
        return _horovod.allreduce(tensor, op=_horovod.Sum, name=f"total_{tensor.op.name}")


def reduce_scatter_mean(
    tensors: Sequence[tf.Tensor], name: str, dtype: tf.DType | None = None
) -> tf.Tensor:
    """Returns this worker's shard of the mean of float32 tensors over the workers.

    The tensors are joined to a vector, padded with zeros to a multiple of the number N of workers,
    and sent as `dtype`. Worker r gets shard r of N. This sends half as much as `all_reduce_mean`,
    and so does `all_gather`, which restores the vector. A large tensor is sent in parts. Horovod
    matches the vectors of different workers by `name`.
    """
    with tf.name_scope("mean_over_workers"):
        length = sum(tensor.shape.num_elements() for tensor in tensors)
        shard = -(-length // size())
        vector = flatten_and_concat(tensors, shard * size())
        vector = tf.cast(vector, dtype or vector.dtype)
        most = _VECTOR_BYTES // (vector.dtype.size * size())
        widths = [min(most, shard - start) for start in range(0, shard, most)]
        parts = tf.split(tf.reshape(vector, [size(), shard]), widths, axis=1)
        # Sums instead of averages, because Habana's Horovod would not divide on the card.
        sums = [
            _horovod.reducescatter(part, op=_horovod.Sum, name=f"{name}/{number}")
            for number, part in enumerate(parts)
        ]
        sums = tf.reshape(tf.concat(sums, axis=1), [shard])
        return tf.cast(sums, tensors[0].dtype) / size()


def flatten_and_concat(tensors: Sequence[tf.Tensor], length: int | None = None) -> tf.Tensor:
    """Returns the concatenated values of tensors, padded with zeros to a length."""
    flat = [tf.reshape(tensor, [tensor.shape.num_elements()]) for tensor in tensors]
    missing = (length or 0) - sum(tensor.shape[0] for tensor in flat)
    return tf.concat([*flat, tf.zeros([missing])] if missing > 0 else flat, axis=0)


def all_gather(shard: tf.Tensor, name: str) -> tf.Tensor:
    """Returns the concatenated shards of a vector from all workers."""
    vector = _horovod.allgather(shard, name=name)
    if shard.shape[0] is not None:
        vector.set_shape([shard.shape[0] * size()])
    return vector


def fusion_buckets(
    tensors: Sequence[tf.Tensor], most_bytes: int | None = None
) -> Iterable[list[tf.Tensor]]:
    """Yields groups of consecutive tensors up to a size; a larger tensor is its own group."""
    most, group, used = most_bytes or _VECTOR_BYTES, list[tf.Tensor](), 0
    for tensor in tensors:
        needed = tensor.shape.num_elements() * tensor.dtype.size
        if group and used + needed > most:
            yield group
            group, used = [], 0
        group.append(tensor)
        used += needed
    if group:
        yield group


class _BroadcastVariables(tf.train.SessionRunHook):
    """Broadcasts rank 0's variables at the start; Horovod's own hook ends with TensorFlow 2.15."""

    def begin(self) -> None:
        self._broadcast = _horovod.broadcast_global_variables(0)

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        session.run(self._broadcast)


def starting_hooks() -> list[tf.train.SessionRunHook]:
    """Returns hooks that broadcast rank 0's variables when a session begins."""
    return [_BroadcastVariables()] if size() > 1 else []
