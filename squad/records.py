"""Features as TFRecords of `tf.train.Example`, with the reference's keys."""

from __future__ import annotations

import functools

import tensorflow.compat.v1 as tf

from runtime.data import tf_example
from squad.alignment import Tokens
from squad.features import FIRST_UNIQUE_ID, InputFeatures, Window, WindowMaker

SEQUENCE_KEYS = ("input_ids", "input_mask", "segment_ids")
ANSWER_KEYS = ("start_positions", "end_positions", "is_impossible")
_REMEMBERED_PARAGRAPHS = 64
# How the entry of an id begins; ids from 2**28 to before 2**35 take 5 bytes, as all of them do.
_BEFORE_ID = tf_example.entry("unique_ids", bytes(5))[:-5]


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
        self.write(tf_example.serialize(fields))

    def write(self, record: bytes) -> None:
        """Appends one feature that is serialized already."""
        self._writer.write(record)
        self.num_features += 1

    def write_entries(self, entries: bytes) -> None:
        """Appends what `RecordMaker` has made, with the next number as its id."""
        number = tf_example.varint(FIRST_UNIQUE_ID + self.num_features)
        self.write(tf_example.example(_BEFORE_ID + number + entries))

    def close(self) -> None:
        """Closes the file; it is complete from here on."""
        self._writer.close()


class RecordMaker:
    """Makes records of windows, all but their ids, which are known when they are written.

    Masks take a byte a token, so that their entries have one length and begin with the same bytes.
    """

    def __init__(self, max_seq_length: int, maker: WindowMaker):
        """For features of one length, with the special tokens of `maker`."""
        # The windows of all questions on a paragraph are cut out of its encoded ids.
        self._encoded = functools.lru_cache(_REMEMBERED_PARAGRAPHS)(self._encode_ids)
        self._table = tf_example.varint_table(maker.vocab_size)
        self._zeros, self._ones = bytes(max_seq_length), b"\x01" * max_seq_length
        self._cls, self._sep = (tf_example.varint(i) for i in (maker.cls_id, maker.sep_id))
        self._before_mask, self._before_segments, self._before_p_mask = (
            tf_example.entry(key, self._zeros)[:-max_seq_length]
            for key in ("input_mask", "segment_ids", "p_mask")
        )

    def entries(self, window: Window, is_training: bool) -> bytes:
        """The entries of a record, joined; the same values as those of `model_inputs`."""
        zeros, ones = self._zeros, self._ones
        first, used = window.doc_offset, window.length
        padding = zeros[used:]
        question = tf_example.varints(window.question)
        encoded, places = self._encoded(window.paragraph)
        document = encoded[places[window.begin] : places[window.end]]
        ids = b"".join((self._cls, question, self._sep, document, self._sep, padding))
        parts = [
            tf_example.entry("input_ids", ids),
            *(self._before_mask, ones[:used], padding),
            *(self._before_segments, zeros[:first], ones[first:used], padding),
            *(self._before_p_mask, zeros[:1], ones[1:first]),
            *(zeros[first : used - 1], ones[used - 1 :]),
        ]
        if is_training:
            start, end = window.positions
            parts += [
                _number_entry("start_positions", start),
                _number_entry("end_positions", end),
                _number_entry("is_impossible", int(window.answer is None)),
            ]
        return b"".join(parts)

    def _encode_ids(self, tokens: Tokens) -> tuple[bytes, list[int]]:
        """The ids of tokens as varints, and where each token's begins, and the last one's end."""
        content, lengths = self._table.encode(tokens.ids)
        return content, [0, *lengths.cumsum().tolist()]


@functools.cache
def _number_entry(key: str, value: int) -> bytes:
    """The entry of one small number."""
    return tf_example.entry(key, tf_example.varint(value))


def feature_spec(seq_length: int, is_training: bool, with_p_mask: bool) -> dict:
    """What `tf.io.parse_example` needs to read a record of features."""
    spec = {key: tf.io.FixedLenFeature([seq_length], tf.int64) for key in SEQUENCE_KEYS}
    spec["unique_ids"] = tf.io.FixedLenFeature([], tf.int64)
    if with_p_mask:
        spec["p_mask"] = tf.io.FixedLenFeature([seq_length], tf.int64)
    if is_training:
        spec.update({key: tf.io.FixedLenFeature([], tf.int64) for key in ANSWER_KEYS})
    return spec
