"""TFRecord files: random access, checks, and what their records contain."""

from __future__ import annotations

import array
import contextlib
import functools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import google_crc32c
import numpy as np
import tensorflow.compat.v1 as tf
from google.protobuf.message import DecodeError

from albert.core.errors import UserError, user_error_in
from albert.distributed import launcher

# A record: 8 bytes length, 4 bytes checksum of the length, the content, 4 bytes checksum of the
# content. A checksum is a CRC-32C, rotated right by 15 bits, plus a constant.
_BEFORE, _AFTER = 12, 4
_CHECKSUM_ADDED = 0xA282EAD8
# Records to read at a time in order.
_AT_A_TIME = 256
# Parts of TensorFlow's messages for records with other lengths, or with ids out of range.
_SIGNS_OF_DAMAGE = ("ParseExample", "is not in [0, ", "outside the valid range of [0, ")


def record_error(record: bytes, spec: Mapping[str, Any], limits: Mapping[str, float]) -> str | None:
    """Returns the error of a `tf.train.Example`, worded to follow its number; None if it is valid.

    Args:
      spec: the features of every record, all of type `tf.io.FixedLenFeature`.
      limits: exclusive upper limits of some features, whose values must not be negative or NaN.
    """
    try:
        features = tf.train.Example.FromString(record).features.feature
    except DecodeError:
        return "is not a tf.train.Example"
    for key, feature in spec.items():
        kind = "int64_list" if feature.dtype == tf.int64 else "float_list"
        values = getattr(features[key], kind).value
        length = math.prod(feature.shape)
        if len(values) != length:
            return f"has {len(values)} values of {key} ({feature.dtype.name}), not {length}"
        if key in limits:
            array = np.array(values[:], feature.dtype.as_numpy_dtype)
            bad = array[~((array >= 0) & (array < limits[key]))]
            if len(bad):
                return f"has {bad[0]} in {key}, which must be below {limits[key]}"
    return None


def count_records_of_other_writers(
    path: str, spec: Mapping[str, Any], seq_length: int, way_out: str, limits: Mapping[str, int]
) -> int:
    """Counts the records of a feature file that has no header, and warns that the file is used.

    Reads without a session, because the first session must not start before the device is loaded.
    Raises a `UserError` if the file does not hold such features.

    Args:
      seq_length: length of the features, for messages.
      way_out: an alternative to removing the file, for messages.
      spec, limits: see `record_error`.
    """
    count = 0
    try:
        for count, record in enumerate(tf.io.tf_record_iterator(path), start=1):
            if wrong := record_error(record, spec, limits):
                raise ValueError(f"record {count - 1} {wrong}")
        if not count:
            raise ValueError("it has no record")
    except (OSError, ValueError, tf.errors.OpError) as e:
        raise UserError(
            f"{path} exists and is not a file of features of length {seq_length}; "
            f"{way_out} or remove it ({getattr(e, 'message', e)})"
        ) from e
    if launcher.is_first():
        tf.logging.warning(
            "%s has no header of this program: using its %d records without knowing their source",
            path,
            count,
        )
    return count


class RecordFile:
    """Random access to the records of TFRecord files, through the operating system's cache."""

    def __init__(self, paths: Sequence[str]):
        """Locates all records.

        Raises a `UserError` if a file ends inside a record, or a record's length is damaged.
        """
        # Read instead of mapped into memory: what a process has read of a mapped file counts as its
        # memory.
        self._files, self._paths, starts, checksums = list[IO[bytes]](), list[str](), [], []
        for path in paths:
            file = open(path, "rb")  # noqa: SIM115
            file_starts, file_checksums = _record_positions(file, path)
            if len(file_checksums):
                self._files.append(file)
                self._paths.append(path)
                starts.append(np.frombuffer(file_starts, np.int64))
                checksums.append(np.frombuffer(file_checksums, np.uint32))
        # Few bytes per record, because there may be tens of millions of records. Each file has an
        # additional start, after its last record.
        self._starts = np.concatenate([np.zeros(0, np.int64), *starts])
        self._crcs = _crcs(np.concatenate([np.zeros(0, np.uint32), *checksums]))
        self._ends = np.cumsum([len(part) for part in checksums], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._crcs)

    def __iter__(self) -> Iterator[bytes]:
        """Yields all records; raises as `read` does."""
        for start in range(0, len(self), _AT_A_TIME):
            yield from self.read(range(start, min(start + _AT_A_TIME, len(self))))

    def read(self, numbers: Sequence[int] | np.ndarray) -> list[bytes]:
        """Returns records by number; raises a `UserError` if one does not match its checksum."""
        numbers = np.asarray(numbers, np.int64)
        files = np.searchsorted(self._ends, numbers, side="right")
        starts = self._starts[numbers + files]
        lengths = self._starts[numbers + files + 1] - starts - (_BEFORE + _AFTER)
        records = [
            os.pread(self._files[file].fileno(), length, start)
            for file, length, start in zip(
                files.tolist(), lengths.tolist(), starts.tolist(), strict=True
            )
        ]
        actual, written = list(map(google_crc32c.value, records)), self._crcs[numbers].tolist()
        if actual != written:
            wrong = int(np.not_equal(actual, written).argmax())
            before = self._ends[files[wrong] - 1] if files[wrong] else 0
            raise _damaged(self._paths[files[wrong]], numbers[wrong] - before)
        return records


def _record_positions(file: IO[bytes], path: str) -> tuple[array.array, array.array]:
    """Returns the first byte of each record and of one after the last, and the checksums."""
    starts, checksums, position = array.array("q"), array.array("I"), 0
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    while position < size:
        before = file.read(_BEFORE)
        length = int.from_bytes(before[:8], "little")
        end = position + _BEFORE + length
        if end + _AFTER > size:
            raise UserError(f"{path} ends inside record {len(starts)}; make the file again")
        if before != _before_content(length):
            raise _damaged(path, len(starts))
        starts.append(position + _BEFORE)
        file.seek(length, os.SEEK_CUR)
        checksums.append(int.from_bytes(file.read(_AFTER), "little"))
        position = end + _AFTER
    starts.append(position + _BEFORE)
    return starts, checksums


@functools.lru_cache(maxsize=4096)
def _before_content(length: int) -> bytes:
    """Returns the header of a record of `length` bytes: that length and its checksum."""
    content = length.to_bytes(8, "little")
    crc = google_crc32c.value(content)
    masked = (crc >> 15 | crc << 17) + _CHECKSUM_ADDED
    return content + (masked & 0xFFFFFFFF).to_bytes(4, "little")


def _crcs(checksums: np.ndarray) -> np.ndarray:
    """Returns the CRCs that checksums, uint32 [N], stand for."""
    turned = checksums - np.uint32(_CHECKSUM_ADDED)
    return turned >> 17 | turned << 15


def _damaged(path: str, number: int) -> UserError:
    return UserError(f"{path}: record {number} does not match its checksum; make the file again")


@contextlib.contextmanager
def reading_records(files: Sequence[str] = ()) -> Iterator[None]:
    """Converts TensorFlow's errors about damaged or malformed records to a `UserError`.

    `files` are those that the `with` block reads, for the message about malformed records.
    """
    try:
        yield
    except tf.errors.OpError as e:
        if error := user_error_in(e.message):
            raise error from e
        is_argument = isinstance(e, tf.errors.InvalidArgumentError)
        if is_argument and files and any(sign in e.message for sign in _SIGNS_OF_DAMAGE):
            raise UserError(
                f"a record of {', '.join(files)} is damaged, or has other lengths or values than "
                "the first ones; make the file again"
            ) from e
        raise


def sequence_lengths(files: Sequence[str], spec: Mapping[str, Any]) -> np.ndarray:
    """Returns the lengths of the sequences of every record without padding, [N, sequences].

    Raises a `UserError` if a record is damaged.
    """
    records, seq_length = RecordFile(files), spec["input_mask"].shape[-1]
    lengths = np.zeros([len(records), math.prod(spec["input_mask"].shape[:-1])], np.int64)
    positions = np.arange(1, seq_length + 1)
    for number, record in enumerate(records):
        mask = tf.train.Example.FromString(record).features.feature["input_mask"].int64_list.value
        lengths[number] = (np.reshape(mask[:], [-1, seq_length]) * positions).max(axis=1)
    return lengths


def sampled_shares(
    files: Sequence[str], token: int, length: int, most: int = 1000
) -> tuple[float, float]:
    """Returns a token's share of all tokens, and the share of the records without padding.

    They are those of at most `most` records, spread over the files. Of a record with several
    sequences of `length` tokens, one without padding counts. Raises a `UserError` if a record is
    damaged.
    """
    records = RecordFile(files)
    numbers = np.unique(np.linspace(0, len(records) - 1, min(most, len(records)), dtype=int))
    hits = total = full = 0
    for record in records.read(numbers):
        features = tf.train.Example.FromString(record).features.feature
        ids, mask = (np.array(features[k].int64_list.value) for k in ("input_ids", "input_mask"))
        hits += int(np.count_nonzero((ids == token) & (mask > 0)))
        total += int(np.count_nonzero(mask))
        full += bool(mask.reshape(-1, length).all(axis=1).any())
    return hits / max(total, 1), full / max(len(numbers), 1)
