"""Questions of a file, which is read again for every pass, because memory may not hold it."""

from __future__ import annotations

import array
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

from albert.core.errors import UserError
from albert.core.files import check_readable
from albert.core.json_reader import JsonReader
from albert.data.tables import find_table
from albert.tasks.squad import SKIP
from albert.tasks.squad.examples import (
    SquadExample,
    check_question,
    checked_questions,
    find_question_table,
    questions_in,
)
from albert.tasks.squad.question_source import QuestionSource
from albert.tasks.squad.question_tables import BadRows, read_questions

# In a text, the quotation marks would be escaped with a backslash.
_MAY_BE_IMPOSSIBLE = re.compile(rb'"is_impossible"(?!\s*:\s*false)')
# Bytes to search at a time, and the last ones, which are searched again together with the next
# ones, because a match may continue there.
_CHUNK, _TAIL = 1 << 20, 64

T = TypeVar("T")
# The context of a paragraph, and its questions, which must be read before the next paragraph.
Paragraph = tuple[str, Iterable[dict[str, Any]]]


class Questions:
    """The questions of a source, for prediction.

    A part of a file is held in memory, and so is a JSON file that has SQuAD's content in an unusual
    form, such as with repeated keys.
    """

    def __init__(self, source: QuestionSource):
        """Reads and checks the file.

        Raises:
          UserError: the file is not valid; see `load_squad` and `checked_questions`.
        """
        self.path = source.path
        self._on_bad_row = source.on_bad_row
        self._articles: list[dict] | None = None
        self._table = find_question_table(self.path)
        # Kept open, so that the file may be replaced while the job runs.
        self._file = open(self.path, "rb")  # noqa: SIM115
        self._state = self._current_state()
        count = None if source.split else self._count_sound()
        if count is None:
            # Usually raises the error, with its place.
            self._articles = source.articles(is_training=False)
            checked = checked_questions(self._articles, self.path, is_training=False)
            count = sum(1 for _ in checked)
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields every question with its paragraph's context."""
        for context, questions in self.paragraphs():
            for question in questions:
                yield context, question

    @property
    def articles(self) -> list[dict] | None:
        """Returns the articles if they are in memory, as those of a part are."""
        return self._articles

    def paragraphs(self) -> Iterator[Paragraph]:
        """Yields the paragraphs in the order of the file.

        Raises:
          UserError: the file has changed.
        """
        if self._articles is not None:
            for article in self._articles:
                yield from ((p["context"], p["qas"]) for p in article["paragraphs"])
            return
        if self._current_state() != self._state:
            raise self._changed()
        for context, questions in self._reporting(self._streamed(BadRows(self.path, SKIP))):
            yield context, self._reporting(questions)

    def _reporting(self, items: Iterable[T]) -> Iterator[T]:
        """Yields the items; converts errors in a file that was valid before."""
        try:
            yield from items
        except (OSError, ValueError) as e:
            raise self._changed() from e

    def _changed(self) -> UserError:
        return UserError(f"{self.path} was changed while this job ran; start the job again")

    def _streamed(self, bad: BadRows) -> Iterator[Paragraph]:
        if self._table is None:
            yield from _paragraphs(self._file.fileno())
            return
        rows = read_questions(self._table, False, bad)
        for (_, context), group in itertools.groupby(rows, key=lambda found: found[:2]):
            yield context, (question.content for question in group)

    def _count_sound(self) -> int | None:
        """Returns the number of questions; None if there is an error, or the form is unusual."""
        # 8 bytes per question, instead of the ids.
        hashes, bad = array.array("q"), BadRows(self.path, self._on_bad_row)
        try:
            for _, questions in self._streamed(bad):
                for question in questions:
                    hashes.append(hash(check_question(question, self.path, "", False)))
        except (OSError, ValueError, UserError):
            return None
        if _has_repeated(hashes):
            return None
        bad.finish()
        return len(hashes)

    def _current_state(self) -> tuple[int, ...]:
        # Tables are opened by their path.
        status = os.stat(self.path if self._table else self._file.fileno())
        return status.st_ino, status.st_size, status.st_mtime_ns


class QuestionExamples:
    """The examples of questions to predict."""

    def __init__(self, questions: Questions):
        self._questions = questions

    def __len__(self) -> int:
        return len(self._questions)

    def __iter__(self) -> Iterator[SquadExample]:
        for context, question in self._questions:
            yield SquadExample(question["id"], question["question"], context)


def _has_repeated(hashes: array.array) -> bool:
    """Returns whether any value occurs twice; changes the order of the values."""
    values = np.frombuffer(hashes, np.int64)
    values.sort()
    return bool((values[1:] == values[:-1]).any())


def _paragraphs(descriptor: int) -> Iterator[Paragraph]:
    """Yields the paragraphs of an open JSON file.

    Raises:
      ValueError: the file does not have SQuAD's usual form.
    """
    # A second reader, for paragraphs whose questions precede their context.
    ahead = enumerate(_contexts(descriptor))
    for number, (reader, keys) in enumerate(_members_of_paragraphs(descriptor)):
        context, has_questions = None, False
        for key in keys:
            if key == "context":
                context = _checked_text(reader.value())
            elif key == "qas":
                if context is None:
                    context = next(found for place, found in ahead if place == number)
                questions = reader.values()
                yield context, questions
                for _ in questions:
                    pass
                has_questions = True
            else:
                reader.value()
        if context is None or not has_questions:
            raise ValueError("a paragraph is not complete")


def _contexts(descriptor: int) -> Iterator[str]:
    """Yields the context of every paragraph of an open JSON file."""
    for reader, keys in _members_of_paragraphs(descriptor):
        context = None
        for key in keys:
            if key == "context":
                context = reader.value()
            elif key == "qas":
                for _ in reader.values():
                    pass
            else:
                reader.value()
        yield _checked_text(context)


def _members_of_paragraphs(descriptor: int) -> Iterator[tuple[JsonReader, Iterator[str]]]:
    """Yields a reader at the members of every paragraph; the caller reads all of them."""
    reader = JsonReader(descriptor)
    for _ in _values_of(reader, "data"):
        for _ in _values_of(reader, "paragraphs"):
            yield reader, reader.members()
    reader.end()


def _values_of(reader: JsonReader, name: str) -> Iterator[None]:
    """Yields None for each item of an object's array; the caller reads the item's value."""
    found = False
    for key in reader.members():
        if key == name:
            yield from reader.items()
            found = True
        else:
            reader.value()
    if not found:
        raise ValueError(f"an object has no {name}")


def _checked_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a context is no text")
    return value


def check_all_answerable(input_file: str, what: str) -> None:
    """Checks that a SQuAD file is not version 2.0, which has unanswerable questions.

    Files with other errors pass. Only tables and files that may be version 2.0 are parsed.

    Args:
      input_file: the file.
      what: name of the file in messages.

    Raises:
      UserError: the file has unanswerable questions.
    """
    try:
        check_readable(input_file, what)
        impossible = list(_impossible(input_file))
    except UserError:
        return
    if impossible:
        raise UserError(
            f"{what} {input_file} is SQuAD 2.0: it has {len(impossible)} unanswerable questions, "
            f"the first is {impossible[0]}; use `albert squad 2.0`"
        )


def _impossible(input_file: str) -> Iterator[str]:
    """Yields the ids of the unanswerable questions in a file."""
    questions: Iterable[tuple[str, dict[str, Any]]] = ()
    if find_table(input_file):
        questions = questions_in(input_file, False, BadRows(input_file, SKIP))
    elif _contains(input_file, _MAY_BE_IMPOSSIBLE):
        questions = Questions(QuestionSource(input_file))
    yield from (question["id"] for _, question in questions if question.get("is_impossible"))


def _contains(path: str, pattern: re.Pattern[bytes]) -> bool:
    """Returns whether a file contains a pattern; true, too, if a match is too long to be sure."""
    tail = b""
    try:
        with open(path, "rb") as file:
            while content := file.read(_CHUNK):
                tail += content
                found = pattern.search(tail)
                if found and found.start() < len(tail) - _TAIL:
                    return True
                tail = tail[-_TAIL:]
    except OSError as e:
        raise UserError(f"{path} cannot be read: {e.strerror}") from e
    return bool(pattern.search(tail))
