"""Serializes a `tf.train.Example` of integers without protocol buffer objects.

Creating those objects and Python lists would take longer than all other work on a feature.
The wire format (https://protobuf.dev/programming-guides/encoding) of an Example is

  Example { 1: Features { 1 (repeated): { 1: key, 2: Feature { 3: Int64List { 1: varints } } } } }

Entries of different features may be joined in any order and put into an Example at the end.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

# Tags: field number times 8, plus 2 for content with a length.
_FIELD_1, _FIELD_2, _FIELD_3 = b"\x0a", b"\x12", b"\x1a"


def varint(value: int) -> bytes:
    """Encodes a non-negative integer in groups of 7 bits, the lowest first."""
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    groups.append(value)
    return bytes(groups)


class _Varints(dict):
    """A cache of the results of `varint`."""

    def __missing__(self, value: int) -> bytes:
        self[value] = encoded = varint(value)
        return encoded


# For values with few distinct numbers, because the cache is not bounded.
VARINTS = _Varints()


def varints(values: Iterable[int]) -> bytes:
    """Encodes non-negative integers with few distinct values as varints."""
    return b"".join(map(VARINTS.__getitem__, values))


class VarintTable:
    """A table of the varints of all numbers below a limit (at most 2**28), for encoding arrays."""

    def __init__(self, limit: int):
        numbers = np.arange(limit, dtype=np.uint32)[:, None]
        positions = np.arange(4, dtype=np.uint32)
        lengths = 1 + np.count_nonzero(numbers >> (7 * positions[1:]), axis=1)
        follows = positions < lengths[:, None] - 1
        groups = (numbers >> (7 * positions) & 127 | 128 * follows).astype(np.uint8)
        # One lookup yields a number's four bytes as an integer, another which of them are used.
        self._bytes = groups.view(np.uint32)[:, 0]
        self._used = (positions < lengths[:, None]).view(np.uint32)[:, 0]
        self._lengths = lengths

    def encode(self, numbers: np.ndarray) -> tuple[bytes, np.ndarray]:
        """Returns the joined varints of an array's numbers, and the number of bytes of each."""
        used = self._used[numbers].view(bool)
        return self._bytes[numbers].view(np.uint8)[used].tobytes(), self._lengths[numbers]


varint_table = functools.cache(VarintTable)


def entry(key: str, values: bytes) -> bytes:
    """Returns the entry of one feature, from `varints` of its values."""
    return _before(key, len(values)) + values


@functools.cache
def _before(key: str, length: int) -> bytes:
    """Returns the bytes of an entry before its values, which have `length` bytes."""
    values = bytes(length)
    feature = _with_length(_FIELD_3, _with_length(_FIELD_1, values))
    pair = _with_length(_FIELD_1, key.encode()) + _with_length(_FIELD_2, feature)
    return _with_length(_FIELD_1, pair).removesuffix(values)


def example(joined_entries: bytes) -> bytes:
    """Returns a serialized Example from joined entries."""
    return _with_length(_FIELD_1, joined_entries)


def serialize(fields: Mapping[str, Sequence[int]]) -> bytes:
    """Returns a serialized Example with these non-negative integers."""
    return example(b"".join(entry(key, varints(values)) for key, values in fields.items()))


def _with_length(tag: bytes, content: bytes) -> bytes:
    return tag + VARINTS[len(content)] + content
