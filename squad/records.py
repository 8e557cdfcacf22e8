"""Features as TFRecords of `tf.train.Example`, with the reference's keys."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from squad.features import InputFeatures

SEQUENCE_KEYS = ("input_ids", "input_mask", "segment_ids")
ANSWER_KEYS = ("start_positions", "end_positions", "is_impossible")
# A record: 8 bytes length, 4 bytes checksum of it, the content, 4 bytes checksum of that.
_BEFORE, _AFTER = 12, 4


class FeatureWriter:
    """Writes `InputFeatures` to a TFRecord file; `num_features` counts them."""

    def __init__(self, filename, is_training):
        self.filename = filename
        self.is_training = is_training
        self.num_features = 0
        self._writer = tf.io.TFRecordWriter(filename)

    def process_feature(self, feature: InputFeatures) -> None:
        """Appends one feature."""
        fields = {
            "unique_ids": [feature.unique_id],
            "input_ids": feature.input_ids,
            "input_mask": feature.input_mask,
            "segment_ids": feature.segment_ids,
            "p_mask": feature.p_mask,
        }
        if self.is_training:
            fields["start_positions"] = [feature.start_position]
            fields["end_positions"] = [feature.end_position]
            fields["is_impossible"] = [int(feature.is_impossible)]
        self.write(serialize(fields))

    def write(self, record: bytes) -> None:
        """Appends one feature that is serialized already."""
        self._writer.write(record)
        self.num_features += 1

    def close(self) -> None:
        """Closes the file; it is complete from here on."""
        self._writer.close()


def serialize(fields: Mapping[str, Sequence[int]]) -> bytes:
    """A serialized `tf.train.Example` of integer lists."""
    features = {
        key: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        for key, values in fields.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def feature_spec(seq_length: int, is_training: bool, with_p_mask: bool) -> dict:
    """What `tf.io.parse_example` needs to read a record of features."""
    spec = {key: tf.io.FixedLenFeature([seq_length], tf.int64) for key in SEQUENCE_KEYS}
    spec["unique_ids"] = tf.io.FixedLenFeature([], tf.int64)
    if with_p_mask:
        spec["p_mask"] = tf.io.FixedLenFeature([seq_length], tf.int64)
    if is_training:
        spec.update({key: tf.io.FixedLenFeature([], tf.int64) for key in ANSWER_KEYS})
    return spec


def count_valid_records(path: str, spec: dict) -> int:
    """The number of records of a file, all of which are whole and have the features of `spec`.

    Raises:
      ValueError: the file has no record.
      tf.errors.OpError: a record is damaged or lacks a feature.
    """
    with tf.Graph().as_default(), tf.Session() as session:
        batches = tf.data.TFRecordDataset(path).batch(256)
        parsed = batches.map(lambda records: tf.io.parse_example(records, spec)["unique_ids"])
        count = session.run(
            parsed.reduce(np.int64(0), lambda total, ids: total + tf.size(ids, out_type=tf.int64))
        )
    if not count:
        raise ValueError(f"{path} has no record")
    return int(count)


class RecordFile:
    """Random access to the records of TFRecord files, through the operating system's cache."""

    def __init__(self, paths: Sequence[str]):
        """Finds where each record is.

        Raises:
          ValueError: a file ends inside a record.
        """
        self._maps, self._records = [], []
        for path in paths:
            with open(path, "rb") as file:
                file.seek(0, 2)
                if not file.tell():
                    continue
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._maps.append(content)
            self._records += [(content, *place) for place in _record_places(content, path)]

    def __len__(self) -> int:
        return len(self._records)

    def read(self, numbers: np.ndarray) -> list[bytes]:
        """The records with these numbers."""
        places = (self._records[number] for number in numbers)
        return [content[start:end] for content, start, end in places]


def _record_places(content: mmap.mmap, path: str) -> list[tuple[int, int]]:
    places, position = [], 0
    while position < len(content):
        length = int.from_bytes(content[position : position + 8], "little")
        start, end = position + _BEFORE, position + _BEFORE + length
        if end + _AFTER > len(content):
            raise ValueError(f"{path} ends inside record {len(places)}")
        places.append((start, end))
        position = end + _AFTER
    return places
