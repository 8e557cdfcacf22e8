"""Raw outputs of the model to answers."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from runtime.files import write_json
from squad.examples import SquadExample
from squad.features import InputFeatures
from squad.left import PredictionFeature

RawResult = collections.namedtuple("RawResult", ["unique_id", "start_log_prob", "end_log_prob"])


class _Candidate(NamedTuple):
    """A span of tokens of one feature, by its scores."""

    feature: PredictionFeature
    start: int
    end: int
    start_log_prob: float
    end_log_prob: float

    @property
    def score(self) -> float:
        return self.start_log_prob + self.end_log_prob


def accumulate_predictions_v1(
    result_dict: dict,
    all_examples: Sequence[SquadExample],
    all_features: Iterable[InputFeatures | PredictionFeature],
    all_results: Iterable[RawResult],
    n_best_size: int,
    max_answer_length: int,
) -> None:
    """Adds the candidate spans of some results to a dictionary; several models' may be added up.

    A candidate begins and ends at one of the `n_best_size` best positions, lies in the paragraph,
    begins where the feature gives its token the maximum context, and has at most
    `max_answer_length` tokens.

    Args:
      result_dict: example index -> unique id -> (first, last token of the window) -> list of
        (start, end) scores.
      all_examples: the examples.
      all_features: their features.
      all_results: the model's output for each feature, start and end scores of every position.
      n_best_size: how many positions are considered.
      max_answer_length: in tokens.
    """
    results = {result.unique_id: result for result in all_results}
    by_example = _by_example(all_features)
    for index in range(len(all_examples)):
        of_example = result_dict.setdefault(index, {})
        for feature in by_example[index]:
            spans = of_example.setdefault(feature.unique_id, {})
            result = results[feature.unique_id]
            for span, scores in _candidates(feature, result, n_best_size, max_answer_length):
                spans.setdefault(span, []).append(scores)


def _candidates(
    feature: PredictionFeature, result: RawResult, n_best_size: int, max_answer_length: int
) -> Iterable[tuple[tuple[int, int], tuple[float, float]]]:
    """Spans of the window's tokens and their scores, best starts first, then best ends."""
    starts, start_scores = _best(result.start_log_prob, n_best_size, feature.doc_offset)
    ends, end_scores = _best(result.end_log_prob, n_best_size, feature.doc_offset)
    count = len(feature.max_context)
    usable = (starts >= 0) & (starts < count)
    usable[usable] = feature.max_context[starts[usable]]
    lengths = ends[None, :] - starts[:, None] + 1
    valid = usable[:, None] & (ends < count) & (lengths > 0) & (lengths <= max_answer_length)
    rows, columns = np.nonzero(valid)
    spans = zip(starts[rows].tolist(), ends[columns].tolist(), strict=True)
    scores = zip(start_scores[rows].tolist(), end_scores[columns].tolist(), strict=True)
    return zip(spans, scores, strict=True)


def _best(scores: Sequence[float], count: int, offset: int) -> tuple[np.ndarray, np.ndarray]:
    """The `count` best positions, less `offset`, with their scores; of equals the first."""
    scores = np.asarray(scores)
    best = np.argsort(-scores, kind="stable")[:count]
    return best - offset, scores[best]


def write_predictions_v1(
    result_dict: dict,
    all_examples: Sequence[SquadExample],
    all_features: Iterable[InputFeatures | PredictionFeature],
    all_results: Iterable[RawResult],
    n_best_size: int,
    max_answer_length: int,
    output_prediction_file: str,
    output_nbest_file: str,
    *,
    no_answer: str = "empty",
) -> dict[str, str]:
    """Writes every question's best answer, and its `n_best_size` best, as JSON.

    Args:
      result_dict: what `accumulate_predictions_v1` has filled.
      all_examples: the examples.
      all_features: their features.
      all_results: not used.
      n_best_size: how many answers are kept.
      max_answer_length: not used.
      output_prediction_file: question id to answer.
      output_nbest_file: question id to a list of answers with their probability and scores.
      no_answer: the answer of a question without any candidate; the reference's is the word
        "empty".

    Returns:
      Question id to answer.
    """
    nbest = nbest_predictions(result_dict, all_examples, all_features, n_best_size, no_answer)
    write_nbest(nbest, output_prediction_file, output_nbest_file)
    return best_texts(nbest)


def write_nbest(
    nbest: dict[str, list[dict]], output_prediction_file: str, output_nbest_file: str
) -> None:
    """Writes the answers and the n-best lists, each question's under its id."""
    write_json(output_prediction_file, best_texts(nbest), indent=4)
    write_json(output_nbest_file, nbest, indent=4)
    tf.logging.info("Predictions: %s, n-best: %s", output_prediction_file, output_nbest_file)


def best_texts(nbest: dict[str, list[dict]]) -> dict[str, str]:
    """The best answer of every question."""
    return {qas_id: entries[0]["text"] for qas_id, entries in nbest.items()}


def nbest_predictions(
    result_dict: dict,
    all_examples: Sequence[SquadExample],
    all_features: Iterable[InputFeatures | PredictionFeature],
    n_best_size: int,
    no_answer: str,
) -> dict[str, list[dict]]:
    """The best answers of every question with different texts, best first; at least one."""
    by_example = _by_example(all_features)
    nbest = {}
    for index, example in enumerate(all_examples):
        candidates = [
            _mean_candidate(feature, span, scores)
            for feature in by_example[index]
            for span, scores in result_dict[index][feature.unique_id].items()
        ]
        candidates.sort(key=lambda c: c.score, reverse=True)
        nbest[example.qas_id] = _entries(candidates, example.paragraph_text, n_best_size) or [
            {"text": no_answer, "probability": 1.0, "start_log_prob": 0.0, "end_log_prob": 0.0}
        ]
    return nbest


def _mean_candidate(
    feature: PredictionFeature, span: tuple[int, int], scores: list[tuple[float, float]]
) -> _Candidate:
    start, end = (sum(column) / len(scores) for column in zip(*scores, strict=True))
    return _Candidate(feature, *span, start, end)


def _entries(candidates: list[_Candidate], paragraph_text: str, n_best_size: int) -> list[dict]:
    """The first candidates with different texts, as the n-best file has them."""
    texts = {}
    for candidate in candidates:
        if len(texts) >= n_best_size:
            break
        first = int(candidate.feature.starts[candidate.start])
        last = int(candidate.feature.ends[candidate.end])
        texts.setdefault(paragraph_text[first : last + 1].strip(), candidate)
    probabilities = _softmax([candidate.score for candidate in texts.values()])
    return [
        {
            "text": text,
            "probability": probability,
            "start_log_prob": candidate.start_log_prob,
            "end_log_prob": candidate.end_log_prob,
        }
        for (text, candidate), probability in zip(texts.items(), probabilities, strict=True)
    ]


def _softmax(scores: Sequence[float]) -> list[float]:
    highest = max(scores, default=0.0)
    exponentials = [math.exp(score - highest) for score in scores]
    total = sum(exponentials)
    return [e / total for e in exponentials]


def _by_example(
    features: Iterable[InputFeatures | PredictionFeature],
) -> dict[int, list[PredictionFeature]]:
    by_example = collections.defaultdict(list)
    for feature in features:
        if isinstance(feature, InputFeatures):
            feature = _from_input_features(feature)
        by_example[feature.example_index].append(feature)
    return by_example


def _from_input_features(feature: InputFeatures) -> PredictionFeature:
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
