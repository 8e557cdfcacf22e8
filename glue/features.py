"""Examples to features: token ids with their segments, and the label."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

import tokenization
from glue.examples import InputExample, PaddingInputExample
from runtime.data import tf_example
from runtime.errors import UserError

SEQUENCE_KEYS = ("input_ids", "input_mask", "segment_ids")
# Around and between the two texts of a pair, and around a single text.
_PAIR_SPECIAL_TOKENS, _SINGLE_SPECIAL_TOKENS = 3, 2
# The shortest feature: [CLS], a token, [SEP], a token, [SEP].
SHORTEST = _PAIR_SPECIAL_TOKENS + 2


class InputFeatures:
    """What the model takes of an example.

    Attributes:
      input_ids, input_mask, segment_ids: lists of `max_seq_length` integers.
      label_id: the label's number; the label itself in regression.
      guid, example_id: not used, as in the reference.
      is_real_example: false for what fills a batch up.
    """

    def __init__(
        self,
        input_ids,
        input_mask,
        segment_ids,
        label_id,
        guid=None,
        example_id=None,
        is_real_example=True,
    ):
        self.input_ids = input_ids
        self.input_mask = input_mask
        self.segment_ids = segment_ids
        self.label_id = label_id
        self.guid = guid
        self.example_id = example_id
        self.is_real_example = is_real_example


def convert_single_example(
    ex_index, example, label_list, max_seq_length, tokenizer, task_name
) -> InputFeatures:
    """Converts an `InputExample`; what does not fit is cut off the end of the longer text.

    Args:
      ex_index, task_name: not used; kept for compatibility.
      example: an `InputExample` or a `PaddingInputExample`.
      label_list: what `get_labels` of the task's processor gives.
      max_seq_length: length of the feature.
      tokenizer: a `FullTokenizer`.

    Raises:
      UserError: the label is not in `label_list`.
    """
    if isinstance(example, PaddingInputExample):
        zeros = ([0] * max_seq_length for _ in SEQUENCE_KEYS)
        label_id = 0.0 if list(label_list) == [None] else 0
        return InputFeatures(*zeros, label_id, is_real_example=False)
    ids_a, ids_b = (
        tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text)) if text else []
        for text in (example.text_a, example.text_b)
    )
    cls_id, sep_id = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
    return features_of(example, ids_a, ids_b, label_list, max_seq_length, cls_id, sep_id)


def features_of(
    example: InputExample,
    ids_a: Sequence[int],
    ids_b: Sequence[int],
    label_list: Sequence[str | None],
    max_seq_length: int,
    cls_id: int,
    sep_id: int,
) -> InputFeatures:
    """`convert_single_example` of texts that are encoded already; `ids_b` may be empty."""
    if ids_b:
        kept_a, kept_b = _kept(len(ids_a), len(ids_b), max_seq_length - _PAIR_SPECIAL_TOKENS)
        second = [*ids_b[:kept_b], sep_id]
    else:
        kept_a, second = max_seq_length - _SINGLE_SPECIAL_TOKENS, []
    first = [cls_id, *ids_a[:kept_a], sep_id]
    used = len(first) + len(second)
    padding = [0] * (max_seq_length - used)
    return InputFeatures(
        input_ids=first + second + padding,
        input_mask=[1] * used + padding,
        segment_ids=[0] * len(first) + [1] * len(second) + padding,
        label_id=_label_id(example, label_list),
    )


def _kept(length_a: int, length_b: int, room: int) -> tuple[int, int]:
    """Tokens kept of each text: what taking one after the other off the longer text comes to.

    Of two equally long ones the second loses a token first, as in the reference.
    """
    if length_a + length_b <= room:
        return length_a, length_b
    kept_a = min(length_a, max(room - length_b, (room + 1) // 2))
    return kept_a, room - kept_a


def _label_id(example: InputExample, label_list: Sequence[str | None]) -> int | float:
    if list(label_list) == [None]:
        return float(example.label)
    if example.label not in label_list:
        raise UserError(
            f"example {example.guid}: the label is {example.label!r}, not one of "
            f"{', '.join(map(str, label_list))}"
        )
    return list(label_list).index(example.label)


class FeatureMaker:
    """Makes records of features with a SentencePiece tokenizer; fast where there are many."""

    def __init__(
        self,
        tokenizer: tokenization.FullTokenizer,
        label_list: Sequence[str | None],
        max_seq_length: int,
    ):
        """`label_list` and `max_seq_length` are those of `convert_single_example`."""
        self._model = tokenizer.sp_model
        self._special_ids = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
        self._label_list = label_list
        self._max_seq_length = max_seq_length

    def records(self, examples: Sequence[InputExample]) -> list[bytes]:
        """A serialized `tf.train.Example` for each example."""
        ids_a, ids_b = (
            tokenization.encode_ids_of_all(self._model, texts)
            for texts in ([e.text_a for e in examples], [e.text_b or "" for e in examples])
        )
        return [
            serialize(
                features_of(
                    example, a, b, self._label_list, self._max_seq_length, *self._special_ids
                )
            )
            for example, a, b in zip(examples, ids_a, ids_b, strict=True)
        ]


def serialize(feature: InputFeatures) -> bytes:
    """A feature as `tf.train.Example`: `label_ids` is a float in regression, else an integer."""
    fields = {key: getattr(feature, key) for key in SEQUENCE_KEYS}
    fields["is_real_example"] = [int(feature.is_real_example)]
    if not isinstance(feature.label_id, float):
        return tf_example.serialize({**fields, "label_ids": [feature.label_id]})
    label = tf.train.Feature(float_list=tf.train.FloatList(value=[feature.label_id]))
    joined = tf.train.Example(features=tf.train.Features(feature={"label_ids": label}))
    # Serialized messages one after the other are read as one message with the fields of both.
    return tf_example.serialize(fields) + joined.SerializeToString()


def convert_examples_to_features(
    examples, label_list, max_seq_length, tokenizer, task_name
) -> list[InputFeatures]:
    """Returns the features of examples; see `convert_single_example`."""
    return [
        convert_single_example(number, example, label_list, max_seq_length, tokenizer, task_name)
        for number, example in enumerate(examples)
    ]


def file_based_convert_examples_to_features(
    examples, label_list, max_seq_length, tokenizer, output_file, task_name
) -> None:
    """Writes the features of examples to a TFRecord file; see `convert_single_example`."""
    with tf.io.TFRecordWriter(output_file) as writer:
        for number, example in enumerate(examples):
            feature = convert_single_example(
                number, example, label_list, max_seq_length, tokenizer, task_name
            )
            writer.write(serialize(feature))
