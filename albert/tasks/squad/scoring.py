"""Exact match and F1, computed as in the official evaluation scripts of SQuAD 1.1 and 2.0."""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import operator
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from albert.core.log import LOG
from albert.core.text import listed

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


# Each score compares the same few texts.
@functools.lru_cache(maxsize=64)
def normalize_answer_v1(s: str) -> str:
    """Returns the text in lower case, without ASCII punctuation, articles and extra white space."""
    return " ".join(_ARTICLES.sub(" ", s.lower().translate(_WITHOUT_PUNCTUATION)).split())


def f1_score(prediction: str, ground_truth: str) -> float:
    """Returns the harmonic mean of the words' precision and recall; 0 without common words."""
    return overlap_f1(*(normalize_answer_v1(text).split() for text in (prediction, ground_truth)))


def overlap_f1(predicted: Sequence[str], true: Sequence[str]) -> float:
    """Returns the harmonic mean of precision and recall of the common parts; 0 without any."""
    common = sum((collections.Counter(predicted) & collections.Counter(true)).values())
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(true)
    return 2 * precision * recall / (precision + recall)


def exact_match_score(prediction: str, ground_truth: str) -> bool:
    """Returns whether the normalized texts are equal."""
    return normalize_answer_v1(prediction) == normalize_answer_v1(ground_truth)


def metric_max_over_ground_truths(
    metric_fn: Callable[[str, str], float], prediction: str, ground_truths: Sequence[str]
) -> float:
    """Returns a prediction's best score against any of the answers; 0 if there are no answers."""
    return max((metric_fn(prediction, truth) for truth in ground_truths), default=0.0)


def compute_exact(a_gold: str, a_pred: str) -> int:
    """Returns 1 if the normalized texts are equal, otherwise 0."""
    return int(exact_match_score(a_pred, a_gold))


def compute_f1(a_gold: str, a_pred: str) -> float:
    """Returns `f1_score`, or 1 if neither text has words, as with no answer."""
    has_words = normalize_answer_v1(a_gold) or normalize_answer_v1(a_pred)
    return f1_score(a_pred, a_gold) if has_words else 1


@dataclasses.dataclass(slots=True)
class ScoredAnswer:
    """The answer to a question, with its scores.

    Attributes:
      answer: "" means no answer, None that there is no prediction.
      odds: the log-odds (or another number) of no answer; None if unknown.
      exact, f1: exact match and F1; NaN if unknown.
      is_answerable: whether the question has a true answer.
      if_abstained: both scores if the answer were "".
    """

    qas_id: str
    answer: str | None
    odds: Any = None
    exact: float = math.nan
    f1: float = math.nan
    is_answerable: bool = True
    if_abstained: float = 0.0


class Scorer:
    """The scores of answers by the rules of SQuAD 1.1.

    Attributes:
      answers: the scored answers.
      missing: the ids of the questions without a prediction.
    """

    _outcome = "score 0"

    def __init__(
        self,
        exact: Callable[[str, str], float] = exact_match_score,
        f1: Callable[[str, str], float] = f1_score,
    ):
        """Begins without questions; the functions compare a prediction with a true answer."""
        self._exact_of, self._f1_of = exact, f1
        self.answers, self.missing = list[ScoredAnswer](), list[str]()

    def update(
        self, question: Mapping[str, Any], answer: str | None, odds: float | None = None
    ) -> None:
        """Scores the answer to the next question; without a prediction (None), it is wrong."""
        truths = [truth["text"] for truth in question.get("answers") or []]
        exact = f1 = 0.0
        if answer is None:
            # Even if the true answer has no words.
            self.missing.append(question["id"])
        else:
            exact = metric_max_over_ground_truths(self._exact_of, answer, truths)
            f1 = metric_max_over_ground_truths(self._f1_of, answer, truths)
        self.answers.append(ScoredAnswer(question["id"], answer, odds, exact, f1))

    def log_missing(self) -> None:
        """Logs a warning if there are questions without a prediction."""
        if self.missing:
            count, ids = len(self.missing), listed(self.missing)
            LOG.warning("%d questions have no prediction and %s: %s", count, self._outcome, ids)

    def totals(self) -> dict[str, float]:
        """Returns "exact_match" and "f1", means over all questions in percent."""
        scores = _means(self.answers)
        return {"exact_match": scores["exact"], "f1": scores["f1"]}

    def by_question(self) -> tuple[dict[str, float], dict[str, float]]:
        """Returns exact match and F1 by question id."""
        exact = {one.qas_id: one.exact for one in self.answers}
        return exact, {one.qas_id: one.f1 for one in self.answers}


class ScorerV2(Scorer):
    """The scores of answers by the rules of SQuAD 2.0, where the answer "" abstains."""

    _outcome = "are skipped"

    def __init__(self, is_official: bool = False):
        """Begins without questions.

        To abstain is right if a question has no true answer and, unless `is_official` as in the
        official script, if no true answer has words.
        """
        super().__init__()
        self._is_official, self._best = is_official, dict[str, float]()
        self._unanswerable = 0

    def update(
        self, question: Mapping[str, Any], answer: str | None, odds: float | None = None
    ) -> None:
        """Scores the answer to the next question; without a prediction (None), it is skipped."""
        is_answerable = bool(question.get("answers"))
        self._unanswerable += not is_answerable
        if answer is None:
            self.missing.append(question["id"])
            return
        texts = (truth["text"] for truth in question.get("answers") or [])
        truths = [text for text in texts if normalize_answer_v1(text)]
        exact = max(compute_exact(truth, answer) for truth in truths or [""])
        f1 = max(compute_f1(truth, answer) for truth in truths or [""])
        if_abstained = float(not (is_answerable if self._is_official else truths))
        self.answers.append(
            ScoredAnswer(question["id"], answer, odds, exact, f1, is_answerable, if_abstained)
        )

    def abstain(self, threshold: float | None = None) -> None:
        """Changes the answers to questions with higher odds to no answer; the odds must be known.

        Without a threshold, it is that with the best F1, or 0 if no true answer is known. The
        totals then have the best scores over all thresholds, too.
        """
        for name in ("exact", "f1"):
            changes = [
                (one.odds, getattr(one, name) if one.is_answerable else -bool(one.answer))
                for one in self.answers
            ]
            best, limit = best_threshold(changes, self._unanswerable, len(changes))
            self._best |= {f"best_{name}": best, f"best_{name}_thresh": limit}
        limit = self._best["best_f1_thresh"] if threshold is None else threshold
        for one in self.answers:
            if one.odds > limit:
                one.answer, one.exact, one.f1 = "", one.if_abstained, one.if_abstained

    def totals(self) -> dict[str, float]:
        """Returns scores in percent, and the numbers of questions.

        These are `exact`, `f1` and `total` over all questions, and the same with the prefixes
        `HasAns_` and `NoAns_` over answerable and unanswerable questions. After `abstain`, also
        `best_exact` and `best_f1`, reached if all questions abstain whose odds are above
        `best_exact_thresh` or `best_f1_thresh`.
        """
        scores = _means(self.answers)
        for prefix, answerable in (("HasAns", True), ("NoAns", False)):
            part = _means([one for one in self.answers if one.is_answerable == answerable])
            scores |= {f"{prefix}_{name}": value for name, value in part.items()}
        return scores | self._best


def _means(answers: Sequence[ScoredAnswer]) -> dict[str, float]:
    return means([one.exact for one in answers], [one.f1 for one in answers])


def means(exact: Sequence[float], f1: Sequence[float]) -> dict[str, float]:
    """Returns mean scores in percent and the number of questions; nothing if there are none."""
    count = len(exact)
    if not count:
        return {}
    return {"exact": 100.0 * sum(exact) / count, "f1": 100.0 * sum(f1) / count, "total": count}


def best_threshold(
    changes: Iterable[tuple[float, float]], score: float, count: int
) -> tuple[float, float]:
    """Returns the best mean score in percent over all thresholds, and its threshold.

    At first all questions abstain. Then they answer in the order of their odds of no answer, the
    lowest first. The threshold is that of the last question that answers; at first, it is 0.

    Args:
      changes: odds of no answer, and the change of the sum of scores if the question answers.
      score: the sum of scores if all questions abstain.
    """
    best, threshold = score, 0.0
    for odds, change in sorted(changes, key=operator.itemgetter(0)):
        score += change
        if score > best:
            best, threshold = score, odds
    return 100.0 * best / count, threshold
