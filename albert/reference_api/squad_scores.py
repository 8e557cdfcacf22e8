"""The reference's functions for scores, which take dictionaries by question id.

Those for SQuAD 2.0 have the names and arguments of the official script.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from albert.tasks.squad.scoring import Scorer, ScorerV2, best_threshold, means, normalize_answer_v1

normalize_answer_v2 = normalize_answer_v1


def evaluate_v1(dataset: list[dict], predictions: Mapping[str, str]) -> dict[str, float]:
    """Returns "exact_match" and "f1" of SQuAD 1.1, means over all questions in percent.

    `dataset` has the articles, which are the content of a SQuAD file under "data". `predictions`
    has answers by question id; questions without one score 0 and are logged.
    """
    scorer = Scorer()
    for question in _questions_of(dataset):
        scorer.update(question, predictions.get(question["id"]))
    scorer.log_missing()
    return scorer.totals()


def make_qid_to_has_ans(dataset: list[dict]) -> dict[str, bool]:
    """Returns, by question id, whether the question has an answer."""
    return {question["id"]: bool(question.get("answers")) for question in _questions_of(dataset)}


def get_tokens(s: str | None) -> list[str]:
    """Returns the words of a normalized text."""
    return normalize_answer_v1(s).split() if s else []


def get_raw_scores(
    dataset: list[dict], preds: Mapping[str, str]
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns exact match and F1 by question id, against the best-matching true answer.

    The true answer to an unanswerable question is "". Questions without a prediction are skipped.
    """
    scorer = ScorerV2()
    for question in _questions_of(dataset):
        scorer.update(question, preds.get(question["id"]))
    return scorer.by_question()


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
    return means([exact_scores[i] for i in ids], [f1_scores[i] for i in ids])


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
    changes = [
        (na_prob, scores[qas_id] if qid_to_has_ans[qas_id] else -bool(preds[qas_id]))
        for qas_id, na_prob in na_probs.items()
        if qas_id in scores
    ]
    unanswerable = sum(not has_answer for has_answer in qid_to_has_ans.values())
    return best_threshold(changes, unanswerable, len(scores))


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


def _questions_of(dataset: list[dict]) -> Iterator[dict]:
    for article in dataset:
        for paragraph in article["paragraphs"]:
            yield from paragraph["qas"]
