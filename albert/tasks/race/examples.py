"""Examples of RACE (questions on passages with four options), their files and their features."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from albert.core.errors import UserError
from albert.records.sequences import TokenSequence, make_sequence
from albert.tables.tables import SourceLine, read_json_lines
from albert.tasks.classification.examples import Processor
from albert.tasks.classification.records import serialize
from albert.tokenization import FullTokenizer

LABELS = ["A", "B", "C", "D"]
# The types of a passage's members.
_KINDS = {"id": str, "article": str, "questions": list, "options": list, "answers": list}
# [CLS] before the passage, and [SEP] after the passage and after the question with an option.
SPECIAL_TOKENS = 3


class InputExample(NamedTuple):
    """A question on a passage, `context_sentence`, whose id is `example_id`.

    Attributes:
      start_ending: text that precedes every ending; None in RACE.
      endings: the question combined with each of its options.
      label: number of the right option; None if unknown.
    """

    example_id: str
    context_sentence: str
    start_ending: str | None
    endings: list[str]
    label: int | None = None


class RaceProcessor(Processor):
    """A reader of RACE's files; each line is a JSON object with a passage and its questions."""

    labels = LABELS

    def __init__(self, use_spm, do_lower_case, high_only, middle_only):
        """Makes a processor; `high_only` and `middle_only` select the level of the school."""
        super().__init__(use_spm, do_lower_case)
        left_out = ("middle",) * high_only + ("high",) * middle_only
        self.levels = [level for level in ("middle", "high") if level not in left_out]

    def files_of(self, data_dir: str, split: str) -> list[str]:
        folders = [os.path.join(data_dir, "RACE", split, level) for level in self.levels]
        return [path for folder in folders for path in _texts(folder)]

    def read_files(self, files: Sequence[str], split: str) -> list[InputExample]:
        rows = (row for path in files for row in read_json_lines(path))
        examples = [e for location, passage in rows for e in self._examples(location, passage)]
        if not examples:
            raise UserError(f"{' and '.join(files[:2])} have no questions")
        return examples

    @staticmethod
    def display_parts(example: InputExample) -> dict[str, Any]:
        passage, texts = example.context_sentence, example.endings
        return {"id": example.example_id, "passage": passage, "texts": texts}

    def _examples(self, location: SourceLine, passage: Mapping[str, Any]) -> Iterator[InputExample]:
        """Yields the questions on a passage; raises a `UserError` for a missing or wrong value."""
        for key, kind in _KINDS.items():
            if not isinstance(passage.get(key), kind):
                kind_name = "text" if kind is str else "list"
                raise location.error(f"{key} is missing or not a {kind_name}")
        if not passage["id"].isprintable():
            raise location.error(f"the id {passage['id']!r} has a character that is not printable")
        columns = [passage[key] for key in ("questions", "options", "answers")]
        if len(set(map(len, columns))) > 1:
            raise location.error("questions, options and answers must have the same length")
        context = self.process_text(passage["article"])
        for number, (question, options, answer) in enumerate(zip(*columns, strict=True), start=1):
            texts = [question, *options] if isinstance(options, list) else []
            if [type(text) for text in texts] != [str] * (1 + len(LABELS)):
                raise location.error(f"question {number} is not a text with {len(LABELS)} options")
            if answer not in LABELS:
                is_other = f"is {answer!r}, not A, B, C or D"
                raise location.error(f"the answer to question {number} {is_other}")
            endings = fill_blank(*map(self.process_text, texts))
            yield InputExample(passage["id"], context, None, endings, LABELS.index(answer))


def fill_blank(question: str, *options: str) -> list[str]:
    """Returns the question with each option instead of its blank, or after the question."""
    blank = question if "_" in question else f"{question} _"
    return [blank.replace("_", option) for option in options]


def _texts(folder: str) -> list[str]:
    """Returns all.txt in a folder or, if missing, all .txt files, which have one passage each."""
    escaped = glob.escape(folder)
    paths = glob.glob(f"{escaped}/all.txt") or sorted(glob.glob(f"{escaped}/*.txt"))
    if not paths:
        raise UserError(f"{folder} has no .txt files of RACE")
    return paths


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
