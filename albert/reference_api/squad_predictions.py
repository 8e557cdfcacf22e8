"""The reference's functions for SQuAD's answers and their scores.

They process all questions at a time. Those for the scores of SQuAD 2.0 have the names and arguments
of the official script.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from albert.core.files import write_json
from albert.reference_api.squad_models import InputFeatures
from albert.tasks.squad.features import PredictionFeature, SquadExample
from albert.tasks.squad.predictions import (
    NO_ANSWER,
    NO_ANSWER_V2,
    Output,
    at_characters,
    best_candidates,
    candidate_type,
    entries_of,
    no_answer_odds,
    spans_in,
)
from albert.tasks.squad.scoring import Scorer, ScorerV2, best_threshold, means, normalize_answer_v1

normalize_answer_v2 = normalize_answer_v1
# A candidate with the scores of a model as they are, or with the means of several models.
_MEAN = candidate_type(np.float64)
RawResult = collections.namedtuple("RawResult", ["unique_id", "start_log_prob", "end_log_prob"])
RawResultV2 = collections.namedtuple(
    "RawResultV2",
    "unique_id start_top_log_probs start_top_index end_top_log_probs end_top_index cls_logits",
)


def accumulate_predictions_v1(
    result_dict: dict,
    all_examples: Sequence[SquadExample],
    all_features: Iterable[InputFeatures | PredictionFeature],
    all_results: Iterable[RawResult],
    n_best_size: int,
    max_answer_length: int,
) -> None:
    """Adds the candidate spans of results to a dictionary; it can combine several models.

    The dictionary is: example index -> unique id -> (first, last token of the window) -> list of
    (start, end) scores. Results have the scores of every position, of which the `n_best_size` best
    are considered. `max_answer_length` is in tokens.
    """
    outputs = {
        unique_id: {**_best("start", starts, n_best_size), **_best("end", ends, n_best_size)}
        for unique_id, starts, ends in all_results
    }
    features = _by_example(all_features)
    _accumulate(result_dict, all_examples, features, outputs, max_answer_length)


def write_predictions_v1(
    result_dict: dict,
    all_examples: Sequence[SquadExample],
    all_features: Iterable[InputFeatures | PredictionFeature],
    all_results: Iterable[RawResult],
    n_best_size: int,
    max_answer_length: int,
    output_prediction_file: str,
    output_nbest_file: str,
) -> dict[str, str]:
    """Writes the best answer, and the `n_best_size` best answers, to every question as JSON.

    As in the reference, the answer to a question without candidates is the word "empty".

    `result_dict` is from `accumulate_predictions_v1`; `all_results` and `max_answer_length` are not
    used. The first file receives answers by question id, which are also returned; the second one
    receives lists of answers with probability and scores by question id.
    """
    no_answer = {**NO_ANSWER, "text": "empty"}
    nbest = _nbest_predictions(result_dict, all_examples, all_features, n_best_size, no_answer)
    answers = {qas_id: entries[0]["text"] for qas_id, entries in nbest.items()}
    write_json(output_prediction_file, answers, indent=4)
    write_json(output_nbest_file, nbest, indent=4)
    tf.logging.info("Predictions: %s, n-best: %s", output_prediction_file, output_nbest_file)
    return answers


def accumulate_predictions_v2(
    result_dict: dict,
    cls_dict: dict,
    all_examples: Sequence[SquadExample],
    all_features: Iterable[InputFeatures | PredictionFeature],
    all_results: Iterable[RawResultV2],
    n_best_size: int,
    max_answer_length: int,
    start_n_top: int,
    end_n_top: int,
) -> None:
    """Does the same as `accumulate_predictions_v1` for the results of SQuAD 2.0.

    `cls_dict` becomes: example index -> list of the models' minimum log-odds of no answer.
    `n_best_size`, `start_n_top` and `end_n_top` are not used; the results determine them.
    """
    outputs = {result.unique_id: result._asdict() for result in all_results}
    features = _by_example(all_features)
    _accumulate(result_dict, all_examples, features, outputs, max_answer_length)
    for index in range(len(all_examples)):
        odds = no_answer_odds(outputs[feature.unique_id] for feature in features[index])
        cls_dict.setdefault(index, []).append(odds)


def write_predictions_v2(
    result_dict: dict,
    cls_dict: dict,
    all_examples: Sequence[SquadExample],
    all_features: Iterable[InputFeatures | PredictionFeature],
    all_results: Iterable[RawResultV2],
    n_best_size: int,
    max_answer_length: int,
    output_prediction_file: str,
    output_nbest_file: str,
    output_null_log_odds_file: str,
    null_score_diff_threshold: float | None,
) -> tuple[dict[str, str], dict[str, float]]:
    """Writes every question's answer, best answers and log-odds of no answer as JSON.

    Returns the answers and the models' mean log-odds by question id. The answer is "" if the
    log-odds are at or above `null_score_diff_threshold`, if any. For the other arguments, see
    `accumulate_predictions_v2` and `write_predictions_v1`.
    """
    nbest = _nbest_predictions(result_dict, all_examples, all_features, n_best_size, NO_ANSWER_V2)
    odds = {
        example.qas_id: sum(cls_dict[index]) / len(cls_dict[index])
        for index, example in enumerate(all_examples)
    }
    limit = np.inf if null_score_diff_threshold is None else null_score_diff_threshold
    answers = {
        qas_id: entries[0]["text"] if odds[qas_id] < limit else ""
        for qas_id, entries in nbest.items()
    }
    write_json(output_prediction_file, answers, indent=4)
    write_json(output_nbest_file, nbest, indent=4)
    write_json(output_null_log_odds_file, odds, indent=4)
    return answers, odds


def evaluate_v2(
    result_dict: dict,
    cls_dict: dict,
    prediction_json: list[dict],
    eval_examples: Sequence[SquadExample],
    eval_features: Iterable[InputFeatures | PredictionFeature],
    all_results: Iterable[RawResultV2],
    n_best_size: int,
    max_answer_length: int,
    output_prediction_file: str,
    output_nbest_file: str,
    output_null_log_odds_file: str,
) -> dict[str, float]:
    """Writes predictions with the best threshold (see `write_predictions_v2`), and scores them.

    `prediction_json` has the articles, which are the content of a SQuAD file under "data". The
    scores are those of the reference, not of the official script: a question with log-odds above 1
    abstains, regardless of its answer. Returns `exact` and `f1` in percent, `total`, and the best
    `null_score_diff_threshold`.
    """
    arguments = (
        *(result_dict, cls_dict, eval_examples, list(eval_features), all_results),
        *(n_best_size, max_answer_length),
        *(output_prediction_file, output_nbest_file, output_null_log_odds_file),
    )
    has_answer, best = make_qid_to_has_ans(prediction_json), dict[str, float]()
    answers, odds = write_predictions_v2(*arguments, None)
    raw = get_raw_scores(prediction_json, answers)
    find_all_best_thresh(best, answers, *raw, odds, has_answer)
    threshold = best["best_f1_thresh"]
    answers, odds = write_predictions_v2(*arguments, threshold)
    raw = get_raw_scores(prediction_json, answers)
    exact, f1 = (apply_no_ans_threshold(r, odds, has_answer, 1.0) for r in raw)
    return {**make_eval_dict(exact, f1), "null_score_diff_threshold": threshold}


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


def _best(side: str, scores: Sequence[float], count: int) -> Output:
    """Returns the `count` best positions with their scores; of equal scores, the first."""
    values = np.asarray(scores)
    best = np.argsort(-values, kind="stable")[:count]
    return {f"{side}_top_index": best, f"{side}_top_log_probs": values[best]}


def _accumulate(
    result_dict: dict,
    all_examples: Sequence[SquadExample],
    features: Mapping[int, list[PredictionFeature]],
    outputs: Mapping[int, Output],
    max_answer_length: int,
) -> None:
    for index in range(len(all_examples)):
        features_spans = result_dict.setdefault(index, {})
        for feature in features[index]:
            spans_scores = features_spans.setdefault(feature.unique_id, {})
            spans = spans_in(feature, outputs[feature.unique_id], max_answer_length, _MEAN)
            for _, first, last, *scores in spans.tolist():
                spans_scores.setdefault((first, last), []).append(tuple(scores))


def _nbest_predictions(
    result_dict: dict,
    all_examples: Sequence[SquadExample],
    all_features: Iterable[InputFeatures | PredictionFeature],
    n_best_size: int,
    no_answer: dict,
) -> dict[str, list[dict]]:
    """Returns each question's best answers with different texts, best first; at least one."""
    features, nbest = _by_example(all_features), {}
    for index, example in enumerate(all_examples):
        groups = [
            at_characters(feature, _mean_spans(result_dict[index][feature.unique_id]))
            for feature in features[index]
        ]
        best = best_candidates(groups, [example.paragraph_text], n_best_size)
        nbest[example.qas_id] = entries_of(best, example.paragraph_text, no_answer)
    return nbest


def _mean_spans(spans_scores: dict[tuple[int, int], list[tuple[float, float]]]) -> np.ndarray:
    rows = [
        (0, *span, *(sum(column) / len(scores) for column in zip(*scores, strict=True)))
        for span, scores in spans_scores.items()
    ]
    return np.array(rows, _MEAN)


def _by_example(
    features: Iterable[InputFeatures | PredictionFeature],
) -> dict[int, list[PredictionFeature]]:
    """Returns the features of each example by its number; an empty list if it has none."""
    groups = collections.defaultdict(list)
    for feature in map(_prediction_feature, features):
        groups[feature.example_index].append(feature)
    return groups


def _prediction_feature(feature: InputFeatures | PredictionFeature) -> PredictionFeature:
    if isinstance(feature, PredictionFeature):
        return feature
    offset, count = feature.tokens.index("[SEP]") + 1, len(feature.tok_start_to_orig_index)
    max_context = [feature.token_is_max_context.get(offset + i, False) for i in range(count)]
    return PredictionFeature(
        feature.unique_id,
        feature.example_index,
        offset,
        np.asarray(feature.tok_start_to_orig_index, np.int32),
        np.asarray(feature.tok_end_to_orig_index, np.int32),
        np.array(max_context, bool),
    )


def _questions_of(dataset: list[dict]) -> Iterator[dict]:
    for article in dataset:
        for paragraph in article["paragraphs"]:
            yield from paragraph["qas"]
