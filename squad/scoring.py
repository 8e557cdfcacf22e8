"""Exact match and F1 by the rules of the official SQuAD evaluation."""

from __future__ import annotations

import collections
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence

import tensorflow.compat.v1 as tf

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer_v1(s: str) -> str:
    """Returns the text in lower case, without ASCII punctuation, articles and extra white space."""
    return " ".join(_ARTICLES.sub(" ", s.lower().translate(_WITHOUT_PUNCTUATION)).split())


def f1_score(prediction: str, ground_truth: str) -> float:
    """Returns the harmonic mean of the words' precision and recall, 0 if none is common."""
    predicted, true = (normalize_answer_v1(text).split() for text in (prediction, ground_truth))
    common = sum((collections.Counter(predicted) & collections.Counter(true)).values())
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(true)
    return 2 * precision * recall / (precision + recall)


def exact_match_score(prediction: str, ground_truth: str) -> bool:
    """Tells whether the normalized texts are equal."""
    return normalize_answer_v1(prediction) == normalize_answer_v1(ground_truth)


def metric_max_over_ground_truths(
    metric_fn: Callable[[str, str], float], prediction: str, ground_truths: Sequence[str]
) -> float:
    """Returns the best score a prediction has against any of the answers, 0 if there are none."""
    return max((metric_fn(prediction, truth) for truth in ground_truths), default=0.0)


def evaluate_v1(dataset: list[dict], predictions: Mapping[str, str]) -> dict[str, float]:
    """Scores predictions as SQuAD 1.1 does.

    Args:
      dataset: the articles, what a SQuAD file has under "data".
      predictions: question id to answer; a question without one scores 0, and is logged.

    Returns:
      "exact_match" and "f1", means over all questions in percent.
    """
    exact_match = f1 = total = 0
    for question in questions_of(dataset):
        total += 1
        if question["id"] not in predictions:
            tf.logging.warning("Unanswered question %s will receive score 0.", question["id"])
            continue
        answers = [answer["text"] for answer in question.get("answers") or []]
        prediction = predictions[question["id"]]
        exact_match += metric_max_over_ground_truths(exact_match_score, prediction, answers)
        f1 += metric_max_over_ground_truths(f1_score, prediction, answers)
    return {"exact_match": 100.0 * exact_match / total, "f1": 100.0 * f1 / total}


def questions_of(dataset: list[dict]) -> Iterator[dict]:
    """Yields every question of every article."""
    for article in dataset:
        for paragraph in article["paragraphs"]:
            yield from paragraph["qas"]
