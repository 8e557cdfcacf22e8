"""Exact match and F1 by the rules of the official evaluation of SQuAD 1.1 and 2.0.

The functions of 2.0 have its script's names and arguments.
"""

from __future__ import annotations

import collections
import math
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence

from albert.core.log import LOG
from albert.tasks.squad.examples import listed

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
    _warn_of_missing(dataset, predictions, "score 0")
    exact, f1 = get_raw_scores_v1(dataset, predictions)
    return {"exact_match": _percent(exact), "f1": _percent(f1)}


def get_raw_scores_v1(
    dataset: list[dict], predictions: Mapping[str, str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns question id to exact match and to F1 by the rules of SQuAD 1.1.

    A question without prediction scores 0.
    """
    exact, f1 = {}, {}
    for question in questions_of(dataset):
        qas_id, answers = question["id"], [a["text"] for a in question.get("answers") or []]
        # No answer at all is not right either where the true one has no words.
        answers = answers if qas_id in predictions else []
        prediction = predictions.get(qas_id, "")
        exact[qas_id] = metric_max_over_ground_truths(exact_match_score, prediction, answers)
        f1[qas_id] = metric_max_over_ground_truths(f1_score, prediction, answers)
    return exact, f1


def without_prediction(dataset: list[dict], predictions: Mapping[str, str]) -> list[str]:
    """Returns the ids of the questions that have no prediction."""
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
      dataset: the articles, what a SQuAD file has under "data".
      predictions: question id to answer, "" for none.
      odds: question id to log-odds, or another number, that there is none; None if not known.
      threshold: of the odds, above which a question abstains.

    Returns:
      Of `predictions`, in percent: `exact` and `f1` over all questions, with `HasAns_` and
      `NoAns_` before them over those that have an answer and that have none. With odds
      `best_exact` and `best_f1`: if all questions abstained with odds above `best_exact_thresh`,
      `best_f1_thresh`.
    """
    _warn_of_missing(dataset, predictions, "are left out")
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
    """Returns question id to whether the question has an answer."""
    return {question["id"]: bool(question.get("answers")) for question in questions_of(dataset)}


normalize_answer_v2 = normalize_answer_v1


def get_tokens(s: str | None) -> list[str]:
    """Returns the words of a normalized text."""
    return normalize_answer_v2(s).split() if s else []


def compute_exact(a_gold: str, a_pred: str) -> int:
    """Returns 1 if the normalized texts are equal, else 0."""
    return int(exact_match_score(a_pred, a_gold))


def compute_f1(a_gold: str, a_pred: str) -> float:
    """Returns `f1_score`; 1 if both have no words, as for no answer."""
    return f1_score(a_pred, a_gold) if get_tokens(a_gold) or get_tokens(a_pred) else 1


def get_raw_scores(
    dataset: list[dict], preds: Mapping[str, str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns question id to exact match and to F1, against the best of the true answers.

    The true answer of a question without one is "". A question without prediction is left
    out.
    """
    exact, f1 = dict[str, float](), dict[str, float]()
    for question in questions_of(dataset):
        qas_id, answers = question["id"], [a["text"] for a in question.get("answers") or []]
        if qas_id not in preds:
            continue
        answers = [answer for answer in answers if normalize_answer_v2(answer)] or [""]
        exact[qas_id] = max(compute_exact(answer, preds[qas_id]) for answer in answers)
        f1[qas_id] = max(compute_f1(answer, preds[qas_id]) for answer in answers)
    return exact, f1


def apply_no_ans_threshold(
    scores: Mapping[str, float],
    na_probs: Mapping[str, float],
    qid_to_has_ans: Mapping[str, bool],
    na_prob_thresh: float,
) -> dict[str, float]:
    """Returns the scores if all questions abstain whose `na_probs` are above the threshold."""
    return {
        qas_id: float(not qid_to_has_ans[qas_id]) if na_probs[qas_id] > na_prob_thresh else score
        for qas_id, score in scores.items()
    }


def make_eval_dict(
    exact_scores: Mapping[str, float],
    f1_scores: Mapping[str, float],
    qid_list: Sequence[str] | None = None,
) -> dict[str, float]:
    """Returns the means in percent and the number, of all questions or those of a list."""
    ids = qid_list or list(exact_scores)
    return {
        "exact": 100.0 * sum(exact_scores[i] for i in ids) / len(ids),
        "f1": 100.0 * sum(f1_scores[i] for i in ids) / len(ids),
        "total": len(ids),
    }


def merge_eval(main_eval: dict[str, float], new_eval: Mapping[str, float], prefix: str) -> None:
    """Adds scores to others, with a prefix before their names."""
    main_eval.update({f"{prefix}_{name}": value for name, value in new_eval.items()})


def find_best_thresh(
    preds: Mapping[str, str],
    scores: Mapping[str, float],
    na_probs: Mapping[str, float],
    qid_to_has_ans: Mapping[str, bool],
) -> tuple[float, float]:
    """Returns the best mean score in percent that a threshold gives, and the threshold.

    It begins with all questions abstaining, and lets them answer one after the other, that with
    the least of `na_probs` first; the threshold is that of the last which answers.
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
    """Adds `best_exact`, `best_f1` and their thresholds to scores, see `find_best_thresh`."""
    for name, raw in (("exact", exact_raw), ("f1", f1_raw)):
        best, threshold = find_best_thresh(preds, raw, na_probs, qid_to_has_ans)
        main_eval |= {f"best_{name}": best, f"best_{name}_thresh": threshold}


def is_version_2(dataset: list[dict]) -> bool:
    """Returns whether questions say that they are, or are not, without an answer."""
    return any("is_impossible" in question for question in questions_of(dataset))


def questions_of(dataset: list[dict]) -> Iterator[dict]:
    """Yields every question of every article."""
    for article in dataset:
        for paragraph in article["paragraphs"]:
            yield from paragraph["qas"]
