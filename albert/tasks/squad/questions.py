"""The questions of SQuAD's JSON, of its relatives or of a table.

JSON is an array, or an object with the array "data". The keys of its items tell the form:

- "paragraphs": an article, as in SQuAD's JSON,
- "qas": a context with its questions,
- otherwise, a row of a table.
"""

from __future__ import annotations

import functools
import itertools
import json
import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from albert.core.errors import UserError
from albert.core.files import check_readable, read_json
from albert.core.json_reader import JsonReader
from albert.tables.bad_rows import ERROR, ON_BAD_QUESTION, SKIP, BadRows
from albert.tables.dev_split import DevSplit, made_from
from albert.tables.kinds import QUESTIONS, look_of
from albert.tables.tables import JSON_LINES, NESTED, find_table, items_of
from albert.tasks.squad import ONE
from albert.tasks.squad.answers import usable_answer, why_empty
from albert.tasks.squad.question_tables import MRQA, read_questions

# Reasons why a training skips a question.
NO_ANSWER = "there is no answer"
IMPOSSIBLE = "it is impossible, and has an answer"
# The types of values, for messages.
_TYPES = {str: "a text", list: "a list", int: "a whole number"}


class Paragraph(NamedTuple):
    """A paragraph with its questions.

    Attributes:
      article: the members of its article, with an empty list of paragraphs; those after the
        paragraphs are only known when the next article begins.
      content: the paragraph as in SQuAD's JSON.
    """

    article: dict[str, Any]
    content: dict[str, Any]

    @property
    def context(self) -> str:
        """Returns the text that the questions are about."""
        return self.content["context"]

    @property
    def questions(self) -> list[dict[str, Any]]:
        """Returns the questions as in SQuAD's JSON."""
        return self.content["qas"]


def articles_of(paragraphs: Iterable[Paragraph]) -> Iterator[dict[str, Any]]:
    """Yields the articles of paragraphs as in SQuAD's JSON."""
    for _, group in itertools.groupby(paragraphs, lambda paragraph: id(paragraph.article)):
        own = list(group)
        yield {**own[0].article, "paragraphs": [paragraph.content for paragraph in own]}


class QuestionSource(NamedTuple):
    """The file of some questions.

    Attributes:
      on_bad_row: see `BadRows`. For `ERROR`, SQuAD's JSON is read as for `SKIP`, as the reference
        does.
      split, is_dev: which part to use; all questions if `split` is None.
      answers: which answers of a question to train on: `ONE`, `FIRST` or `ALL`.
    """

    path: str
    on_bad_row: str = ERROR
    split: DevSplit | None = None
    is_dev: bool = False
    answers: str = ONE

    def made_from(self) -> dict[str, Any]:
        """Returns values that features depend on, in addition to the content of the file."""
        # None as in headers of earlier versions, which lack these values.
        on_bad_row = None if self.on_bad_row == ERROR else self.on_bad_row
        answers = None if self.answers == ONE else self.answers
        own = {"on_bad_row": on_bad_row, "answers": answers}
        return {**own, **made_from(self.split)}


class Questions:
    """The questions of a source.

    `table` is None for SQuAD's JSON, for which `is_squad` is true, and for a list of contexts.
    """

    def __init__(self, source: QuestionSource):
        """Opens the file; raises a `UserError` if it is unreadable or has another kind of table."""
        self.path, self.source = source.path, source
        check_readable(self.path, "SQuAD file")
        table = find_table(self.path)
        names = {*table.columns}
        is_mrqa = table.delimiter == JSON_LINES and not names.isdisjoint(("header", "qas"))
        table = table._replace(columns=MRQA) if is_mrqa else table
        is_known = is_mrqa or not names.isdisjoint(("context", "question"))
        if table.delimiter != "[" and not is_known:
            needed = 'it has neither a list "data" nor columns context and question'
            raise _error(self.path, needed)
        self.table = table if is_mrqa or (is_known and names.isdisjoint(NESTED)) else None
        self.is_squad = not self.table and "qas" not in names
        nested = "SQuAD JSON" if self.is_squad else "JSON with a list of contexts"
        self.format = self.table.format + " of MRQA" * is_mrqa if self.table else nested

    def bad_rows(self, is_strict: bool = False) -> BadRows:
        """Returns a new collection for the bad rows of a pass; see `QuestionSource`.

        If `is_strict`, `ERROR` has the same meaning for SQuAD's JSON as for a table.
        """
        action = self.source.on_bad_row
        if action == ERROR and not (self.table or is_strict):
            action = SKIP
        return BadRows(self.path, action, ON_BAD_QUESTION, "row" if self.table else "question")

    def __len__(self) -> int:
        """Returns the number of questions; raises as `paragraphs` does."""
        return self._kept[1]

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields every question with its paragraph's context; raises as `paragraphs` does."""
        for paragraph in self.kept():
            for question in paragraph.questions:
                yield paragraph.context, question

    def kept(self) -> Iterator[Paragraph]:
        """Yields the paragraphs to predict; the file is read once, so that it may change later."""
        for article, content in self._kept[0]:
            yield Paragraph(article, json.loads(content))

    @functools.cached_property
    def _kept(self) -> tuple[list[tuple[dict[str, Any], str]], int]:
        """Returns the articles and contents of all paragraphs, and the number of questions."""
        kept, count = [], 0
        for paragraph in self.paragraphs():
            # As JSON, they need less memory.
            kept.append((paragraph.article, json.dumps(paragraph.content)))
            count += len(paragraph.questions)
        return kept, count

    def paragraphs(
        self, is_training: bool = False, bad: BadRows | None = None
    ) -> Iterator[Paragraph]:
        """Reads the file, and yields its paragraphs in their order after checking each.

        In training, every answer needs its offset in the context, and questions and answers that
        cannot be used are skipped; scores compare texts. `bad` receives what is skipped, and the
        rows of a table that prediction cannot use; the caller finishes it. Without it, the method
        logs at the end what is skipped.

        Raises:
          UserError: the file is not valid, see `read_questions` for a table. In SQuAD's JSON, a
            value is missing or has another type, or an id occurs twice.
        """
        split, is_dev, rows = self.source.split, self.source.is_dev, bad or self.bad_rows()
        for paragraph in self._all(is_training, rows):
            if not split or (split.rank(paragraph.context) in self._dev) == is_dev:
                yield paragraph
        if bad is None:
            rows.finish()

    @functools.cached_property
    def _dev(self) -> frozenset[bytes]:
        assert self.source.split
        # `_all` checks the form of the contexts.
        contexts = ((paragraph.context, "") for paragraph in self._all(False, self.bad_rows()))
        return self.source.split.chosen(contexts, self.path)

    def _all(self, is_training: bool, bad: BadRows) -> Iterator[Paragraph]:
        """Yields the paragraphs of all parts, after checking them."""
        if self.table is None:
            ids = set[str]()
            for location, paragraph in _read_paragraphs(self.path):
                _check_paragraph(paragraph.content, self.path, location, is_training, ids)
                for question in paragraph.questions:
                    question["id"] = str(question["id"])
                yield _usable(paragraph, bad) if is_training else paragraph
            return
        # Both parts need the same rows, so that no context is in both.
        rows = read_questions(self.table, is_training or bool(self.source.split), bad)
        for (title, context), group in itertools.groupby(rows, key=operator.itemgetter(0)):
            qas = [question for _, question in group]
            yield Paragraph({"title": title, "paragraphs": []}, {"context": context, "qas": qas})


def _read_paragraphs(path: str) -> Iterator[tuple[str, Paragraph]]:
    """Yields the paragraphs of a JSON file with their locations, unchecked."""
    try:
        with open(path, "rb") as file:
            reader = JsonReader(file.fileno())
            name = "" if reader.begins("[") else "data"
            for a, _ in enumerate(items_of(reader)):
                location, article = f"{name}[{a}]", dict[str, Any]()
                if not reader.begins("{"):
                    _get(reader.value(), "paragraphs", list, path, location)
                for p, _ in enumerate(_paragraphs_of(reader, article)):
                    yield f"{location}.paragraphs[{p}]", Paragraph(article, reader.value())
                if "qas" in article and "paragraphs" not in article:
                    yield location, Paragraph({"paragraphs": []}, article)
                else:
                    _get(article, "paragraphs", list, path, location)
            reader.end()
    except UserError:
        raise
    except (OSError, ValueError) as e:
        # To locate it.
        read_json(path, "SQuAD file")
        raise _error(path, str(e)) from e


def _paragraphs_of(reader: JsonReader, article: dict[str, Any]) -> Iterator[None]:
    """Yields None for each paragraph of an article, to read it; adds the other members."""
    for key in reader.members():
        if key == "paragraphs" and reader.begins("["):
            article[key] = []
            yield from reader.items()
        else:
            article[key] = reader.value()


def _usable(paragraph: Paragraph, bad: BadRows) -> Paragraph:
    """Returns a paragraph with the questions and answers that training can use."""
    context, questions = paragraph.context, list[dict[str, Any]]()
    for question in paragraph.questions:
        if reason := why_empty(context, question["question"]):
            bad.add(question["id"], reason)
            continue
        answers = question.get("answers")
        if answers and not question.get("is_impossible"):
            usable = [usable_answer(context, answer, question["id"], bad) for answer in answers]
            question = {**question, "answers": [answer for answer in usable if answer]}
            if not question["answers"]:
                continue
        questions.append(question)
    return paragraph._replace(content={**paragraph.content, "qas": questions})


def no_question_error(input_file: str, skipped: Mapping[str, int]) -> UserError:
    """Returns the error for a file without other questions; `skipped` counts them by reason."""
    reasons = ", ".join(f"{count} {reason}" for reason, count in skipped.items())
    return UserError(f"{input_file}: no usable questions ({reasons or 'it has none'})")


def _error(path: str, problem: str) -> UserError:
    """Returns the error for a file that is not SQuAD; it also says what the file looks like."""
    look = look_of(path)
    name = f"; it looks like {look.advice}" if look.name and look.kind != QUESTIONS else ""
    return UserError(f"{path} is not SQuAD: {problem}{name}")


def _check_paragraph(
    paragraph: Any, path: str, location: str, is_training: bool, ids: set[str]
) -> None:
    """Checks the form of a paragraph, and adds the ids of its questions."""
    _get(paragraph, "context", str, path, location)
    for q, question in enumerate(_get(paragraph, "qas", list, path, location)):
        here = f"{location}.qas[{q}]"
        _get(question, "question", str, path, here)
        has_answers = question.get("answers") is not None
        answers = _get(question, "answers", list, path, here) if has_answers else ()
        for a, answer in enumerate(answers):
            _get(answer, "text", str, path, f"{here}.answers[{a}]")
            if is_training:
                _get(answer, "answer_start", int, path, f"{here}.answers[{a}]")
        impossible = question.get("is_impossible")
        if not isinstance(impossible, bool | None):
            problem = f'"is_impossible" must be true or false, not {impossible!r:.80}'
            raise _error(path, f"{here}: {problem}")
        if type(qas_id := question.get("id")) is not int:
            _get(question, "id", str, path, here)
        if str(qas_id) in ids:
            raise UserError(f"{path}: question id {qas_id} occurs twice ({here})")
        ids.add(str(qas_id))


def _get(owner: Any, key: str, kind: type, path: str, location: str) -> Any:
    """Returns `owner[key]` after checking its type."""
    if not isinstance(owner, dict):
        raise _error(path, f"{location} must be an object, not {json.dumps(owner):.80}")
    if type(value := owner.get(key)) is not kind:
        actual = json.dumps(value) if key in owner else "missing"
        raise _error(path, f'{location}: "{key}" must be {_TYPES[kind]}, not {actual:.80}')
    return value
