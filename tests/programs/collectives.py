"""Collective operations of a job's workers; each writes its results to FOLDER/RANK.npz or .json.

mpirun -np N python tests/programs/collectives.py FOLDER
"""

import json
import os
import pathlib
import sys

import numpy as np

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.

import tensorflow.compat.v1 as tf  # isort: skip

from albert.distributed import collectives, exchange

SHAPES = ([3, 2], [], [5], [4, 1, 2])


def values_of(rank: int) -> list[np.ndarray]:
    """Returns the values of a worker: numbers that float16 holds as well."""
    generator = np.random.default_rng(rank)
    return [np.asarray(generator.integers(-8, 8, shape) / 4, np.float32) for shape in SHAPES]


def arrays_of(rank: int) -> list[np.ndarray]:
    """Returns arrays of several lengths; the last worker has none."""
    if rank == collectives.size() - 1:
        return []
    return [np.arange(length, dtype=np.float32) + 100 * rank for length in (2, 0, 3 + rank)]


def means(dtype: tf.DType | None) -> list[np.ndarray]:
    with tf.Graph().as_default(), tf.Session() as session:
        given = [tf.constant(value) for value in values_of(collectives.rank())]
        return session.run(collectives.all_reduce_mean(given, dtype))


def main(folder: pathlib.Path) -> None:
    collectives.join_job(use_horovod=True)
    rank, results = collectives.rank(), {}
    # The last worker runs as if on a card.
    collectives.connect(on_cpu=rank < collectives.size() - 1)
    names = ("OMPI_MCA_mpi_yield_when_idle", "HOROVOD_CYCLE_TIME", "HOROVOD_FUSION_THRESHOLD")
    spared = {name: os.environ[name] for name in names if name in os.environ}
    for name, vector_bytes in (("one_vector", 64 << 20), ("several_vectors", 30)):
        collectives._VECTOR_BYTES = vector_bytes
        results[name] = means(None)
    results["float16"] = means(tf.float16)
    flat = {f"{n}_{i}": v for n, values in results.items() for i, v in enumerate(values)}
    np.savez(folder / f"{rank}.npz", **flat)
    shared = [
        exchange.broadcast_object(value if rank == 0 else f"of rank {rank}")
        for value in (None, 7, "Straße ☃", {"a": [1.5, None]}, "x" * 100000)
    ]
    gathered = exchange.gather_arrays(arrays_of(rank), np.dtype(np.float32))
    gathered = [[array.tolist() for array in arrays] for arrays in gathered]
    found = {"shared": shared, "gathered": gathered, "spared": spared}
    (folder / f"{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
