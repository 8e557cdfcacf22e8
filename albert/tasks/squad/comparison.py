"""Scoring of files of predictions from any system, and comparison of two of them."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from albert.core.errors import FlagError, UserError
from albert.core.files import read_json
from albert.tasks.squad.questions import Questions, QuestionSource, no_question_error
from albert.tasks.squad.scoring import Scorer, ScorerV2

# The half width of a normal distribution's 95% interval, in standard errors.
_ERRORS = 1.96


class QuestionFile(Questions):
    """The questions of a SQuAD file, or some of them.

    Attributes:
      ids: the ids of these questions.
      is_version_2: whether the file is scored as in SQuAD 2.0.
    """

    def __init__(self, path: str, start: int = 0, count: int | None = None):
        """Reads all questions, or at most `count` from number `start`.

        Raises a `UserError` if the file is not SQuAD or has no questions, or a `FlagError` if it
        has not as many as `start`.
        """
        super().__init__(QuestionSource(path))
        self._part = start, None if count is None else start + count
        if not len(self):
            raise no_question_error(path, {})
        if start >= len(self):
            raise FlagError(
                f"--start_sample {start} is too large: {path} has {len(self)} questions, counted "
                "from 0"
            )
        self.ids = [question["id"] for _, question in self]
        self.is_version_2 = any("is_impossible" in one for _, one in super().__iter__())

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        return itertools.islice(super().__iter__(), *self._part)

    def has_answers(self) -> bool:
        """Returns whether any true answers are known."""
        return self.is_version_2 or any(question.get("answers") for _, question in self)

    def predictions(
        self, path: str, odds_path: str | None = None
    ) -> tuple[dict[str, str], dict[str, float] | None]:
        """Reads answers and, if there is a file of them, odds of no answer, by question id.

        The answer "" means no answer, and higher odds mean that this is more probable. Raises a
        `UserError` if a file has other content, or no value for any of the questions, or if some
        but not all answers have odds.
        """
        answers = self._read(path, "predictions", str, "text", "prediction_text")
        if not odds_path:
            return answers, None
        about = "odds of no answer", (int, float), "number", "no_answer_probability"
        odds = self._read(odds_path, *about)
        missing = [qas_id for qas_id in self.ids if qas_id in answers and qas_id not in odds]
        if missing:
            raise UserError(
                f"{len(missing)} questions have a prediction but no odds of no answer, the first "
                f"is {missing[0]}; pass files of the same run"
            )
        return answers, odds

    def has_odds(self, path: str) -> bool:
        """Returns whether predictions in the form of `evaluate` have the probability of none."""
        match read_json(path, "predictions"):
            case [{"no_answer_probability": _}, *_]:
                return True
        return False

    def _read(self, path: str, what: str, kind: Any, needed: str, member: str) -> dict:
        values = read_json(path, what)
        if values and isinstance(values, list) and all(isinstance(v, dict) for v in values):
            # The form of the library `evaluate`.
            by_id = {str(value.get("id")): value.get(member) for value in values}
            if len(by_id) < len(values):
                raise UserError(f"{what} {path}: an id occurs twice")
            values = by_id
        if not isinstance(values, dict):
            raise UserError(f"{what} {path}: must be an object with question ids as keys")
        for qas_id, value in values.items():
            if not isinstance(value, kind) or isinstance(value, bool) or not _fits(value):
                raise UserError(f"{what} {path}: question {qas_id} has no {needed}: {value!r:.80}")
        if not any(qas_id in values for qas_id in self.ids):
            raise UserError(f"{what} {path}: none of its ids is a question of {self.path}")
        return values


def _fits(value: Any) -> bool:
    """Returns False for NaN and for integers beyond floating-point numbers, otherwise True."""
    is_beyond = isinstance(value, int) and abs(value) > sys.float_info.max
    return value == value and not is_beyond


class Predictions(NamedTuple):
    """The answers of a system.

    Attributes:
      odds: by question id, a number that grows with the probability of no answer; None if unknown.
      threshold: limit of `odds` above which SQuAD 2.0's scoring assumes no answer.
      new_scorer: makes the scorer of questions that are not those of SQuAD 2.0.
    """

    answers: Mapping[str, str]
    odds: Mapping[str, float] | None = None
    threshold: float = 1.0
    new_scorer: Callable[[], Scorer] = Scorer

    def scored(self, questions: QuestionFile) -> Scorer:
        """Returns the scores of the answers by the official script for the questions' version."""
        scorer = ScorerV2(is_official=True) if questions.is_version_2 else self.new_scorer()
        odds = self.odds or {}
        for _, question in questions:
            qas_id = question["id"]
            scorer.update(question, self.answers.get(qas_id), odds.get(qas_id))
        scorer.log_missing()
        if self.odds is not None and isinstance(scorer, ScorerV2):
            scorer.abstain(self.threshold)
        return scorer


class Difference(NamedTuple):
    """The difference between the scores of a second and a first system, in percentage points.

    Attributes:
      low, high: ends of the 95% confidence interval of the mean.
      better, worse: ids of the questions on which the second system scores higher, or lower.
    """

    mean: float
    low: float
    high: float
    better: list[str]
    worse: list[str]


def compare(first: Mapping[str, float], second: Mapping[str, float]) -> Difference:
    """Compares two systems' scores by question id, on the questions that both have."""
    ids = [qas_id for qas_id in first if qas_id in second]
    differences = 100.0 * np.array([second[i] - first[i] for i in ids])
    better, worse = (
        [qas_id for qas_id, value in zip(ids, sign * differences, strict=True) if value > 0]
        for sign in (1, -1)
    )
    mean, half = differences.mean(), _ERRORS * differences.std() / np.sqrt(len(ids))
    return Difference(float(mean), float(mean - half), float(mean + half), better, worse)
