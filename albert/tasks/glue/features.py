"""Features of examples (token ids with segments, and the label), and feature files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from albert.core.errors import UserError
from albert.core.log import LOG
from albert.data.sequences import TokenSequence, make_sequence
from albert.tasks.classification import features
from albert.tasks.classification.features import LabelledFeatures
from albert.tasks.glue.examples import DataProcessor, InputExample
from albert.tokenization import FullTokenizer

# [CLS] and two [SEP] for a pair of texts; [CLS] and [SEP] for a single text.
_PAIR_SPECIAL_TOKENS, _SINGLE_SPECIAL_TOKENS = 3, 2


class Feature(NamedTuple):
    """The model's input for an example; see `albert.tasks.classification.features.serialize`."""

    sequence: TokenSequence
    label_id: int | float | list[int]
    is_real_example: bool = True


class FeatureMaker:
    """A converter of a task's examples to features."""

    def __init__(
        self,
        tokenizer: FullTokenizer,
        label_list: Sequence[str | None],
        max_seq_length: int,
    ):
        """Stores shared arguments; raises a `UserError` if the tokenizer lacks [CLS] or [SEP]."""
        self._tokenizer = tokenizer
        self._special_ids = tokenizer.cls_id, tokenizer.sep_id
        self._label_list = label_list
        self._max_seq_length = max_seq_length

    def records(self, examples: Sequence[InputExample]) -> list[bytes]:
        """Returns the record of each example of a processor; a wrong label raises a `UserError`."""
        ids_a, ids_b = (
            self._tokenizer.encode(texts, normalized=True)
            for texts in ([e.text_a for e in examples], [e.text_b or "" for e in examples])
        )
        return [
            serialize(
                make_feature(
                    example, a, b, self._special_ids, self._label_list, self._max_seq_length
                ),
                self._max_seq_length,
            )
            for example, a, b in zip(examples, ids_a, ids_b, strict=True)
        ]


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


def cut_sequence(
    ids_a: Sequence[int], ids_b: Sequence[int], special_ids: Sequence[int], max_seq_length: int
) -> TokenSequence:
    """Returns one or two texts as a truncated sequence; for the arguments see `make_feature`."""
    kept_a, kept_b = max_seq_length - _SINGLE_SPECIAL_TOKENS, 0
    if ids_b:
        kept_a, kept_b = _kept(len(ids_a), len(ids_b), max_seq_length - _PAIR_SPECIAL_TOKENS)
    return make_sequence(ids_a[:kept_a], ids_b[:kept_b], *special_ids)


def sequences_of(
    pairs: Iterable[Sequence[str]], tokenizer: FullTokenizer, max_seq_length: int
) -> list[TokenSequence]:
    """Returns texts or pairs of texts as sequences; the second text of a pair may be empty.

    A warning counts those that are truncated.
    """
    pairs = list(pairs)
    ids_a = tokenizer.encode(pair[0] for pair in pairs)
    ids_b = tokenizer.encode("".join(pair[1:]) for pair in pairs)
    special_ids = tokenizer.cls_id, tokenizer.sep_id
    both = list(zip(ids_a, ids_b, strict=True))
    room = max_seq_length - _SINGLE_SPECIAL_TOKENS
    # A second text has another [SEP].
    if truncated := sum(len(a) + len(b) + bool(b) > room for a, b in both):
        message = "Truncated %d of %d texts to the model's %d tokens"
        LOG.warning(message, truncated, len(both), max_seq_length)
    return [cut_sequence(a, b, special_ids, max_seq_length) for a, b in both]


def _kept(length_a: int, length_b: int, room: int) -> tuple[int, int]:
    """Returns the tokens to keep: the longer text loses some first; of equals, the second does."""
    if length_a + length_b <= room:
        return length_a, length_b
    kept_a = min(length_a, max(room - length_b, (room + 1) // 2))
    return kept_a, room - kept_a


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
    """Returns the record of a feature; see `albert.tasks.classification.features.serialize`."""
    sequence, label_id, is_real_example = feature
    return features.serialize([sequence], label_id, max_seq_length, is_real_example)


class GlueFeatures(LabelledFeatures):
    """The features of a split."""

    way_out = "pass another --cached_dir"

    def __init__(
        self,
        processor: DataProcessor,
        tokenizer: FullTokenizer,
        max_seq_length: int,
        split: str,
        input_file: str,
        feature_file: str,
        workers: int = 1,
    ):
        """Describes the features of a split, "train", "dev" or "test"."""
        maker = FeatureMaker(tokenizer, processor.get_labels(), max_seq_length)
        super().__init__(
            split,
            processor,
            [input_file],
            feature_file,
            tokenizer,
            [max_seq_length],
            maker.records,
            {"task": type(processor).__name__, **processor.made_from()},
            workers,
        )
