"""Features as TFRecords of `tf.train.Example`, with the reference's keys."""

from __future__ import annotations

import functools

import tensorflow.compat.v1 as tf

from albert.data import tf_example
from albert.data.sequences import SEQUENCE_KEYS
from albert.tasks.squad.features import Window
from albert.tokenization import FullTokenizer, Tokens

ANSWER_KEYS = ("start_positions", "end_positions", "is_impossible")
_REMEMBERED_PARAGRAPHS = 64
# How the entry of an id begins; ids from 2**28 to before 2**35 take 5 bytes, as all of them do.
_BEFORE_ID = tf_example.entry("unique_ids", bytes(5))[:-5]


def with_unique_id(entries: bytes, unique_id: int) -> bytes:
    """Returns the record of what `WindowRecordMaker` has made, which lacks its id."""
    return tf_example.example(_BEFORE_ID + tf_example.varint(unique_id) + entries)


class WindowRecordMaker:
    """Makes records of windows, all but their ids, which are known when they are written.

    Masks take a byte a token, so that their entries have one length and begin with the same bytes.
    """

    def __init__(self, max_seq_length: int, tokenizer: FullTokenizer):
        """Prepares for features of one length.

        Raises:
          UserError: the tokenizer has no [CLS] or [SEP].
        """
        # The windows of all questions on a paragraph are cut out of its encoded ids.
        self._encoded = functools.lru_cache(_REMEMBERED_PARAGRAPHS)(self._encode_ids)
        self._table = tf_example.varint_table(tokenizer.size)
        self._zeros, self._ones = bytes(max_seq_length), b"\x01" * max_seq_length
        self._cls, self._sep = (tf_example.varint(i) for i in (tokenizer.cls_id, tokenizer.sep_id))
        self._before_mask, self._before_segments, self._before_p_mask = (
            tf_example.entry(key, self._zeros)[:-max_seq_length]
            for key in ("input_mask", "segment_ids", "p_mask")
        )

    def entries(self, window: Window, is_training: bool) -> bytes:
        """Returns a record's entries, joined; the same values as those of `model_inputs`."""
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
        """Returns tokens' ids as varints, and where each token's begins and the last one's ends."""
        content, lengths = self._table.encode(tokens.ids)
        return content, [0, *lengths.cumsum().tolist()]


@functools.cache
def _number_entry(key: str, value: int) -> bytes:
    """Returns the entry of one small number."""
    return tf_example.entry(key, tf_example.varint(value))


def feature_spec(seq_length: int, is_training: bool, with_p_mask: bool) -> dict:
    """Returns the specification by which `tf.io.parse_example` reads a record of features."""
    spec = {key: tf.io.FixedLenFeature([seq_length], tf.int64) for key in SEQUENCE_KEYS}
    spec["unique_ids"] = tf.io.FixedLenFeature([], tf.int64)
    if with_p_mask:
        spec["p_mask"] = tf.io.FixedLenFeature([seq_length], tf.int64)
    if is_training:
        spec.update({key: tf.io.FixedLenFeature([], tf.int64) for key in ANSWER_KEYS})
    return spec
