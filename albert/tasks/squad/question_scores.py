"""Scores of the answers to many questions, with few bytes for each.

The results are those of the functions in `scoring`, which take dictionaries.
"""

from __future__ import annotations

import array
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from albert.tasks.squad.predictions import NO_FEATURES
from albert.tasks.squad.scoring import answers_v2, compute_exact, compute_f1, raw_score_v1


class QuestionScores:
    """The scores of SQuAD 1.1's answers, in the order of the questions.

    Attributes:
      exact, f1: exact match and F1 of each answer.
    """

    def __init__(self):
        self.exact, self.f1 = array.array("b"), array.array("d")

    def add(self, question: Mapping[str, Any], answer: str) -> None:
        """Scores the answer to the next question."""
        exact, f1 = raw_score_v1(question, answer)
        self.exact.append(int(exact))
        self.f1.append(f1)

    def totals(self) -> dict[str, float]:
        """Returns the overall scores; see `evaluate_v1`."""
        count = len(self.exact)
        return {"exact_match": 100.0 * sum(self.exact) / count, "f1": 100.0 * sum(self.f1) / count}

    def odds(self, number: int) -> float | None:
        """Returns the log-odds that a question has no answer; None if they are unknown."""
        return None

    def abstains(self, number: int) -> bool:
        """Returns whether the log-odds are too high to answer a question."""
        return False


class QuestionScoresV2(QuestionScores):
    """The scores of SQuAD 2.0's answers."""

    def __init__(self):
        super().__init__()
        self._odds, self._threshold, self._best = array.array("d"), math.inf, dict[str, float]()
        # Whether a question has a true answer, whether no true answer has words, and whether the
        # predicted answer has characters.
        self._answerable, self._wordless, self._answered = (array.array("b") for _ in range(3))

    def add(self, question: Mapping[str, Any], answer: str, odds: float = NO_FEATURES) -> None:
        """Scores the answer to the next question, which has log-odds of no answer."""
        answers = answers_v2(question)
        self.exact.append(max(compute_exact(true, answer) for true in answers))
        self.f1.append(max(compute_f1(true, answer) for true in answers))
        self._odds.append(odds)
        self._answerable.append(bool(question.get("answers")))
        self._wordless.append(answers == [""])
        self._answered.append(bool(answer))

    def abstain(self, threshold: float | None) -> None:
        """Changes the answers to questions with higher log-odds to no answer.

        Args:
          threshold: the log-odds; None for those with the best F1, 0 if no true answer is known.
        """
        # From the answers without abstentions, so that the best scores cover every threshold.
        self._best = self._find_best()
        self._threshold = self._best["best_f1_thresh"] if threshold is None else threshold
        high = np.frombuffer(self._odds) > self._threshold
        wordless = np.frombuffer(self._wordless, np.int8)[high]
        np.frombuffer(self.exact, np.int8)[high] = wordless
        np.frombuffer(self.f1)[high] = wordless

    def _find_best(self) -> dict[str, float]:
        """Returns the best scores over all thresholds; see `find_all_best_thresh`."""
        order = np.argsort(self._odds, kind="stable")
        lost, best = -np.array(self._answered, np.int8), dict[str, float]()
        for name, raw in (("exact", self.exact), ("f1", self.f1)):
            changes = np.where(self._answerable, raw, lost)[order].astype(np.float64)
            score = float(len(changes) - sum(self._answerable))
            threshold: float = 0.0
            # In sequence, as the official script adds them.
            changes[0] += score
            np.cumsum(changes, out=changes)
            place = int(changes.argmax())
            if changes[place] > score:
                score, threshold = float(changes[place]), self.odds(int(order[place]))
            best |= {f"best_{name}": 100.0 * score / len(changes), f"best_{name}_thresh": threshold}
        return best

    def totals(self) -> dict[str, float]:
        """Returns the overall scores; see `evaluate_v2`."""
        scores = self._means(range(len(self.exact)))
        for prefix, wanted in (("HasAns", 1), ("NoAns", 0)):
            of_part = self._means(n for n, has in enumerate(self._answerable) if has == wanted)
            scores |= {f"{prefix}_{name}": value for name, value in of_part.items()}
        return scores | self._best

    def _means(self, numbers: Iterable[int]) -> dict[str, float]:
        """Returns the means of some questions in percent; nothing if there are none."""
        numbers = np.fromiter(numbers, np.int32)
        count = len(numbers)
        if not count:
            return {}
        # F1 of texts without words is an integer in the official script, which Python adds in
        # another way than a floating-point number.
        f1 = (1 if self._wordless[n] and self.f1[n] else self.f1[n] for n in numbers)
        exact = sum(self.exact[n] for n in numbers)
        return {"exact": 100.0 * exact / count, "f1": 100.0 * sum(f1) / count, "total": count}

    def odds(self, number: int) -> float:
        odds = self._odds[number]
        return NO_FEATURES if odds == NO_FEATURES else odds

    def abstains(self, number: int) -> bool:
        return self._odds[number] > self._threshold
