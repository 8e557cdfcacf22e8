"""Questions with four options on passages, and how their files are read."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from albert.core.errors import UserError
from albert.data.rows import SourceLine, read_json_lines
from albert.tasks.classification.examples import Processor

LABELS = ["A", "B", "C", "D"]


class InputExample(NamedTuple):
    """A question on a passage.

    Attributes:
      example_id: the passage's id.
      context_sentence: the passage.
      start_ending: what stands before every ending; None in RACE.
      endings: the question with each of its options.
      label: the number of the right one.
    """

    example_id: str
    context_sentence: str
    start_ending: str | None
    endings: list[str]
    label: int | None = None


class RaceProcessor(Processor):
    """Reads RACE: a JSON object a line, with a passage and its questions."""

    def __init__(self, use_spm, do_lower_case, high_only, middle_only):
        """See `Processor`; `high_only`, `middle_only`: questions of one kind of school."""
        super().__init__(use_spm, do_lower_case)
        left_out = ("middle",) * high_only + ("high",) * middle_only
        self.levels = [level for level in ("middle", "high") if level not in left_out]

    def get_labels(self) -> list[str]:
        return LABELS

    def files_of(self, data_dir: str, part: str) -> list[str]:
        folders = [os.path.join(data_dir, "RACE", part, level) for level in self.levels]
        return [path for folder in folders for path in _texts(folder)]

    def read_files(self, files: Sequence[str], part: str) -> list[InputExample]:
        rows = (row for path in files for row in read_json_lines(path))
        examples = [e for place, passage in rows for e in self._examples(place, passage)]
        if not examples:
            raise UserError(f"{' and '.join(files[:2])} have no questions")
        return examples

    @staticmethod
    def id_of(example: InputExample) -> str:
        return example.example_id

    @staticmethod
    def display_parts(example: InputExample) -> dict[str, Any]:
        passage, texts = example.context_sentence, example.endings
        return {"id": example.example_id, "passage": passage, "texts": texts}

    def _examples(self, place: SourceLine, passage: Mapping[str, Any]) -> Iterator[InputExample]:
        _check(place, passage)
        context = self.process_text(passage["article"])
        columns = (passage[key] for key in ("questions", "options", "answers"))
        for question, options, answer in zip(*columns, strict=True):
            texts = [self.process_text(text) for text in (question, *options)]
            endings = fill_blank(*texts)
            yield InputExample(passage["id"], context, None, endings, LABELS.index(answer))


def fill_blank(question: str, *options: str) -> list[str]:
    """Returns the question with each option in the place of its blank, or behind it."""
    blank = question if "_" in question else f"{question} _"
    return [blank.replace("_", option) for option in options]


def _texts(folder: str) -> list[str]:
    """Returns all.txt of a folder, or else all its .txt files, a passage each."""
    escaped = glob.escape(folder)
    found = glob.glob(f"{escaped}/all.txt") or sorted(glob.glob(f"{escaped}/*.txt"))
    if not found:
        raise UserError(f"{folder} has no .txt file of RACE")
    return found


def _check(place: SourceLine, passage: Mapping[str, Any]) -> None:
    """Raises a `UserError` if a passage has not what it must have."""
    for key, kind in _KINDS.items():
        if not isinstance(passage.get(key), kind):
            raise place.error(f"{key} is missing, or no {'text' if kind is str else 'list'}")
    if not passage["id"].isprintable():
        raise place.error(f"the id {passage['id']!r} has a character that is not printable")
    columns = [passage[key] for key in ("questions", "options", "answers")]
    if len(set(map(len, columns))) > 1:
        raise place.error("questions, options and answers must be as many of each")
    for number, (question, options, answer) in enumerate(zip(*columns, strict=True), start=1):
        texts = [question, *options] if isinstance(options, list) else []
        if [type(text) for text in texts] != [str] * (1 + len(LABELS)):
            raise place.error(f"question {number} is no text with {len(LABELS)} options")
        if answer not in LABELS:
            raise place.error(f"the answer to question {number} is {answer!r}, not A, B, C or D")


_KINDS = {"id": str, "article": str, "questions": list, "options": list, "answers": list}
