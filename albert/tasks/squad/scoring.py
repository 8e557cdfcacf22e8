"""Exact match and F1, computed as in the official evaluation scripts of SQuAD 1.1 and 2.0.

The functions for 2.0 have the names and arguments of the script.
"""

from __future__ import annotations

import collections
import functools
import math
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    predicted, true = (normalize_answer_v1(text).split() for text in (prediction, ground_truth))
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


def evaluate_v1(dataset: list[dict], predictions: Mapping[str, str]) -> dict[str, float]:
    """Scores predictions as SQuAD 1.1 does.

    Args:
      dataset: the articles, which are the content of a SQuAD file under "data".
      predictions: answers by question id; questions without one score 0 and are logged.

    Returns:
      "exact_match" and "f1", means over all questions in percent.
    """
    _warn_of_missing(dataset, predictions, "score 0")
    exact, f1 = get_raw_scores_v1(dataset, predictions)
    return {"exact_match": _percent(exact), "f1": _percent(f1)}


def get_raw_scores_v1(
    dataset: list[dict], predictions: Mapping[str, str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns exact match and F1 by question id, computed as in SQuAD 1.1.

    A question without a prediction scores 0.
    """
    exact, f1 = {}, {}
    for question in questions_of(dataset):
        qas_id = question["id"]
        # A missing prediction is wrong, even if the true answer has no words.
        exact[qas_id], f1[qas_id] = (
            raw_score_v1(question, predictions[qas_id]) if qas_id in predictions else (0.0, 0.0)
        )
    return exact, f1


def raw_score_v1(question: Mapping[str, Any], prediction: str) -> tuple[float, float]:
    """Returns exact match and F1 of the answer to a question, computed as in SQuAD 1.1."""
    answers = [answer["text"] for answer in question.get("answers") or []]
    return (
        metric_max_over_ground_truths(exact_match_score, prediction, answers),
        metric_max_over_ground_truths(f1_score, prediction, answers),
    )


def without_prediction(dataset: list[dict], predictions: Mapping[str, str]) -> list[str]:
    """Returns the ids of questions without a prediction."""
    return [q["id"] for q in questions_of(dataset) if q["id"] not in predictions]


def _warn_of_missing(dataset: list[dict], predictions: Mapping[str, str], outcome: str) -> None:
    missing = without_prediction(dataset, predictions)
    if missing:
        LOG.warning(
            "%d questions have no prediction and %s: %s", len(missing), outcome, listed(missing)
        )


def _percent(scores: Mapping[str, float]) -> float:
    return 100.0 * sum(scores.values()) / len(scores)


def evaluate_v2(
    dataset: list[dict],
    predictions: Mapping[str, str],
    odds: Mapping[str, float] | None,
    threshold: float = math.inf,
) -> dict[str, float]:
    """Scores predictions as SQuAD 2.0 does.

    Args:
      dataset: the articles, which are the content of a SQuAD file under "data".
      predictions: answers by question id; "" means no answer.
      odds: by question id, the log-odds (or another number) of no answer; None if unknown.
      threshold: limit of `odds` above which a question counts as unanswered.

    Returns:
      In percent: `exact` and `f1` over all questions, and the same with the prefixes `HasAns_` and
      `NoAns_` over answerable and unanswerable questions. With odds, also `best_exact` and
      `best_f1`, the best scores over all thresholds, reached if all questions abstain whose odds
      are above `best_exact_thresh` or `best_f1_thresh`.
    """
    _warn_of_missing(dataset, predictions, "are skipped")
    has_answer = make_qid_to_has_ans(dataset)
    raw = get_raw_scores(dataset, predictions)
    final = raw
    if odds is not None:
        exact, f1 = (apply_no_ans_threshold(r, odds, has_answer, threshold) for r in raw)
        final = exact, f1
    scores = make_eval_dict(*final)
    for prefix, wanted in (("HasAns", True), ("NoAns", False)):
        ids = [qas_id for qas_id in raw[0] if has_answer[qas_id] == wanted]
        if ids:
            merge_eval(scores, make_eval_dict(*final, ids), prefix)
    if odds is not None:
        find_all_best_thresh(scores, predictions, *raw, odds, has_answer)
    return scores


def make_qid_to_has_ans(dataset: list[dict]) -> dict[str, bool]:
    """Returns, by question id, whether the question has an answer."""
    return {question["id"]: bool(question.get("answers")) for question in questions_of(dataset)}


normalize_answer_v2 = normalize_answer_v1


def get_tokens(s: str | None) -> list[str]:
    """Returns the words of a normalized text."""
    return normalize_answer_v2(s).split() if s else []


def compute_exact(a_gold: str, a_pred: str) -> int:
    """Returns 1 if the normalized texts are equal, otherwise 0."""
    return int(exact_match_score(a_pred, a_gold))


def compute_f1(a_gold: str, a_pred: str) -> float:
    """Returns `f1_score`, or 1 if neither text has words, as with no answer."""
    return f1_score(a_pred, a_gold) if get_tokens(a_gold) or get_tokens(a_pred) else 1


def get_raw_scores(
    dataset: list[dict], preds: Mapping[str, str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns exact match and F1 by question id, against the best-matching true answer.

    The true answer to an unanswerable question is "". Questions without a prediction are skipped.
    """
    exact, f1 = dict[str, float](), dict[str, float]()
    for question in questions_of(dataset):
        if (qas_id := question["id"]) in preds:
            answers = answers_v2(question)
            exact[qas_id] = max(compute_exact(answer, preds[qas_id]) for answer in answers)
            f1[qas_id] = max(compute_f1(answer, preds[qas_id]) for answer in answers)
    return exact, f1


def answers_v2(question: Mapping[str, Any]) -> list[str]:
    """Returns the true answers to a question that have words, or an empty one."""
    answers = (answer["text"] for answer in question.get("answers") or [])
    return [answer for answer in answers if normalize_answer_v2(answer)] or [""]


def apply_no_ans_threshold(
    scores: Mapping[str, float],
    na_probs: Mapping[str, float],
    qid_to_has_ans: Mapping[str, bool],
    na_prob_thresh: float,
) -> dict[str, float]:
    """Returns the scores if all questions with `na_probs` above the threshold abstain."""
    return {
        qas_id: float(not qid_to_has_ans[qas_id]) if na_probs[qas_id] > na_prob_thresh else score
        for qas_id, score in scores.items()
    }


def make_eval_dict(
    exact_scores: Mapping[str, float],
    f1_scores: Mapping[str, float],
    qid_list: Sequence[str] | None = None,
) -> dict[str, float]:
    """Returns mean scores in percent and the number of questions: all, or those in a list."""
    ids = qid_list or list(exact_scores)
    return {
        "exact": 100.0 * sum(exact_scores[i] for i in ids) / len(ids),
        "f1": 100.0 * sum(f1_scores[i] for i in ids) / len(ids),
        "total": len(ids),
    }


def merge_eval(main_eval: dict[str, float], new_eval: Mapping[str, float], prefix: str) -> None:
    """Adds scores to `main_eval`, with a prefix before their names."""
    main_eval.update({f"{prefix}_{name}": value for name, value in new_eval.items()})


def find_best_thresh(
    preds: Mapping[str, str],
    scores: Mapping[str, float],
    na_probs: Mapping[str, float],
    qid_to_has_ans: Mapping[str, bool],
) -> tuple[float, float]:
    """Returns the best mean score in percent over all thresholds, and its threshold.

    At first all questions abstain. Then they answer in the order of their `na_probs`, the lowest
    first. The threshold is the value of the last question that answers.
    """
    score: float = sum(not has_answer for has_answer in qid_to_has_ans.values())
    best = score
    threshold = 0.0
    for qas_id in sorted(na_probs, key=na_probs.__getitem__):
        if qas_id not in scores:
            continue
        if qid_to_has_ans[qas_id]:
            score += scores[qas_id]
        elif preds[qas_id]:
            score -= 1
        if score > best:
            best, threshold = score, na_probs[qas_id]
    return 100.0 * best / len(scores), threshold


def find_all_best_thresh(
    main_eval: dict[str, float],
    preds: Mapping[str, str],
    exact_raw: Mapping[str, float],
    f1_raw: Mapping[str, float],
    na_probs: Mapping[str, float],
    qid_to_has_ans: Mapping[str, bool],
) -> None:
    """Adds `best_exact`, `best_f1` and their thresholds to scores; see `find_best_thresh`."""
    for name, raw in (("exact", exact_raw), ("f1", f1_raw)):
        best, threshold = find_best_thresh(preds, raw, na_probs, qid_to_has_ans)
        main_eval |= {f"best_{name}": best, f"best_{name}_thresh": threshold}


def is_version_2(dataset: list[dict]) -> bool:
    """Returns whether any question is marked as answerable or unanswerable."""
    return any("is_impossible" in question for question in questions_of(dataset))


def questions_of(dataset: list[dict]) -> Iterator[dict]:
    """Yields every question of every article."""
    for article in dataset:
        for paragraph in article["paragraphs"]:
            yield from paragraph["qas"]
