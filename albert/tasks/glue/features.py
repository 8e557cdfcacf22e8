"""Features of examples: token ids with segments, and the label."""

from __future__ import annotations

from collections.abc import Sequence

from albert.core.errors import UserError
from albert.tasks.classification.records import serialize
from albert.tasks.glue.examples import InputExample
from albert.tasks.glue.windows import FIRST, LATER, windows_of
from albert.tokenization import FullTokenizer


def make_records(
    examples: Sequence[InputExample],
    tokenizer: FullTokenizer,
    label_list: Sequence[str | None],
    max_seq_length: int,
    stride: int | None = None,
) -> list[bytes]:
    """Returns the records of a processor's examples: one for each, or one for each window.

    `stride` is that of the windows on long texts, which are truncated if it is None. Raises a
    `UserError` if a label is wrong, or the tokenizer lacks [CLS] or [SEP].
    """
    special_ids = tokenizer.cls_id, tokenizer.sep_id
    texts = [e.text_a for e in examples], [e.text_b or "" for e in examples]
    ids = (tokenizer.encode(column, normalized=True) for column in texts)
    records = list[bytes]()
    for example, a, b in zip(examples, *ids, strict=True):
        label = label_id(example, label_list)
        for number, window in enumerate(windows_of(a, b, special_ids, max_seq_length, stride)):
            kind = LATER if number else FIRST
            records.append(serialize([window], label, max_seq_length, kind))
    return records


def label_id(example: InputExample, label_list: Sequence[str | None]) -> int | float | list[int]:
    """Returns an example's label as in a record; raises a `UserError` if it is not in the list.

    The labels are in the order of their ids; `[None]` for regression.
    """
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
