"""Features of RACE's examples, with one sequence per option."""

from __future__ import annotations

from collections.abc import Sequence

from albert.records.sequences import TokenSequence, make_sequence
from albert.tasks.classification.records import serialize
from albert.tasks.race.examples import InputExample
from albert.tokenization import FullTokenizer

# [CLS] before the passage, and [SEP] after the passage and after the question with an option.
SPECIAL_TOKENS = 3


def make_sequences(
    example: InputExample, tokenizer: FullTokenizer, max_seq_length: int, max_qa_length: int
) -> list[TokenSequence]:
    """Returns `[CLS] passage [SEP] question and option [SEP]` for every option.

    The example has normalized texts. To `max_seq_length` tokens, the end of the passage is
    truncated; to `max_qa_length`, the beginning of question and option.
    """
    texts = [example.context_sentence, example.start_ending or "", *example.endings]
    context, start, *endings = tokenizer.encode(texts, normalized=True)
    kept = [[*start, *ending][-max_qa_length:] for ending in endings]
    special_ids = tokenizer.cls_id, tokenizer.sep_id
    room = max_seq_length - SPECIAL_TOKENS
    return [make_sequence(context[: room - len(ids)], ids, *special_ids) for ids in kept]


def make_records(
    examples: Sequence[InputExample], tokenizer: FullTokenizer, lengths: tuple[int, int]
) -> list[bytes]:
    """Returns the record of each example; for `lengths` see `make_sequences`."""
    sequences = (make_sequences(example, tokenizer, *lengths) for example in examples)
    labels = [example.label for example in examples if example.label is not None]
    return [serialize(s, label, lengths[0]) for s, label in zip(sequences, labels, strict=True)]
