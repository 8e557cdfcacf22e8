"""Features of examples: token ids with segments, and the label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from albert.core.errors import UserError
from albert.data.sequences import TokenSequence, cut_sequence
from albert.tasks.classification import records
from albert.tasks.glue.examples import InputExample
from albert.tasks.glue.windows import FIRST, LATER, windows_of
from albert.tokenization import FullTokenizer


class Feature(NamedTuple):
    """The model's input for an example; see `albert.tasks.classification.records.serialize`."""

    sequence: TokenSequence
    label_id: int | float | list[int]
    is_real_example: int = FIRST


class FeatureMaker:
    """A converter of a task's examples to features."""

    def __init__(
        self,
        tokenizer: FullTokenizer,
        label_list: Sequence[str | None],
        max_seq_length: int,
        stride: int | None = None,
    ):
        """Stores shared arguments; raises a `UserError` if the tokenizer lacks [CLS] or [SEP].

        `stride` is that of the windows on long texts, which are truncated if it is None.
        """
        self._tokenizer, self._stride = tokenizer, stride
        special_ids = tokenizer.cls_id, tokenizer.sep_id
        self._arguments = special_ids, label_list, max_seq_length

    def records(self, examples: Sequence[InputExample]) -> list[bytes]:
        """Returns the records of a processor's examples; a wrong label raises a `UserError`.

        An example has one record, or one for each of its windows.
        """
        ids_a, ids_b = (
            self._tokenizer.encode(texts, normalized=True)
            for texts in ([e.text_a for e in examples], [e.text_b or "" for e in examples])
        )
        return [
            serialize(feature, self._arguments[-1])
            for example, a, b in zip(examples, ids_a, ids_b, strict=True)
            for feature in self._features(example, a, b)
        ]

    def _features(self, example: InputExample, a: Sequence[int], b: Sequence[int]) -> list[Feature]:
        if self._stride is None:
            return [make_feature(example, a, b, *self._arguments)]
        special_ids, labels, length = self._arguments
        windows = windows_of(a, b, special_ids, length, self._stride)
        label = _label_id(example, labels)
        return [Feature(one, label, LATER if n else FIRST) for n, one in enumerate(windows)]


def make_feature(
    example: InputExample,
    ids_a: Sequence[int],
    ids_b: Sequence[int],
    special_ids: Sequence[int],
    label_list: Sequence[str | None],
    max_seq_length: int,
) -> Feature:
    """Returns the feature of an example, with the longer text truncated at its end if necessary.

    Args:
      ids_a, ids_b: token ids of its texts; the second may be empty.
      special_ids: ids of [CLS] and [SEP].
      label_list: labels in the order of their ids; `[None]` for regression.

    Raises:
      UserError: the label is not in `label_list`.
    """
    sequence = cut_sequence(ids_a, ids_b, special_ids, max_seq_length)
    return Feature(sequence, _label_id(example, label_list))


def _label_id(example: InputExample, label_list: Sequence[str | None]) -> int | float | list[int]:
    if isinstance(example.label, tuple):
        return [int(label in example.label) for label in label_list]
    if list(label_list) == [None]:
        return float(example.label)
    if example.label not in label_list:
        raise UserError(
            f"example {example.guid}: the label is {example.label!r}, not one of "
            f"{', '.join(map(str, label_list))}"
        )
    return list(label_list).index(example.label)


def serialize(feature: Feature, max_seq_length: int) -> bytes:
    """Returns the record of a feature; see `albert.tasks.classification.records.serialize`."""
    sequence, label_id, is_real_example = feature
    return records.serialize([sequence], label_id, max_seq_length, is_real_example)
