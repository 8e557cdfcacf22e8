"""The exchange of values and arrays between workers, outside the graph of a model."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.distributed import collectives


def broadcast_object(value: Any) -> Any:
    """Returns rank 0's `value`, any JSON value, on every worker; ignores the other workers'."""
    return all_gather_objects(value)[0]


def gather_arrays(arrays: Sequence[np.ndarray], dtype: np.dtype) -> list[list[np.ndarray]]:
    """Returns the arrays of every worker, by rank; workers may have different lengths and counts.

    The arrays are one-dimensional, may be empty, and have the same type on every worker.
    """
    if collectives.size() == 1:
        return [list(arrays)]
    counts = _gather("gathered_count", np.array([len(arrays)], np.int64))
    lengths = _gather("gathered_lengths", np.array([len(a) for a in arrays], np.int64))
    values = _gather("gathered_values", np.concatenate([np.zeros(0, dtype), *arrays]))
    all_arrays = iter(np.split(values, np.cumsum(lengths)[:-1]))
    return [[next(all_arrays) for _ in range(count)] for count in counts]


def all_gather_objects(value: Any) -> list[Any]:
    """Returns the `value` of every worker, any JSON value, by rank."""
    if collectives.size() == 1:
        return [value]
    content = np.frombuffer(json.dumps(value).encode(), np.uint8)
    gathered = gather_arrays([content], np.dtype(np.uint8))
    return [json.loads(arrays[0].tobytes()) for arrays in gathered]


def check_equal_on_all_workers(facts: Mapping[str, Any]) -> None:
    """Raises a `UserError` that names a fact, a JSON value, and the first rank where it differs."""
    (first_host, first), *others = all_gather_objects([socket.gethostname(), facts])
    for rank, (host, other) in enumerate(others, start=1):
        for name in sorted(first.keys() | other.keys()):
            if other.get(name) != first.get(name):
                raise UserError(
                    f"rank {rank} on {host} differs from rank 0 on {first_host} in {name} "
                    f"({other.get(name)!s:.80}, not {first.get(name)!s:.80}); all hosts need "
                    "the same files and flags"
                )


def _gather(name: str, array: np.ndarray) -> np.ndarray:
    """Returns the concatenated arrays of all workers, sent from the CPU."""
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        placeholder = tf.placeholder(array.dtype, [None])
        result = collectives.all_gather(placeholder, name)
        with tf.Session(config=tf.ConfigProto(device_count={"GPU": 0})) as session:
            return session.run(result, {placeholder: array})
