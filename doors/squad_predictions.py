"""Answers as the reference's functions make them, of the spans of all questions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from doors.squad_features import InputFeatures
from runtime.files import write_json
from squad.examples import SquadExample
from squad.predictions import RawResult, add_spans, by_example, nbest_of
from squad.token_places import PredictionFeature


def accumulate_predictions_v1(
    result_dict: dict,
    all_examples: Sequence[SquadExample],
    all_features: Iterable[InputFeatures | PredictionFeature],
    all_results: Iterable[RawResult],
    n_best_size: int,
    max_answer_length: int,
) -> None:
    """Adds the candidate spans of some results to a dictionary; several models' may be added up.

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
    features = by_example(map(_prediction_feature, all_features))
    for index in range(len(all_examples)):
        of_example = result_dict.setdefault(index, {})
        add_spans(of_example, features[index], results, n_best_size, max_answer_length)


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
    nbest = _nbest_predictions(result_dict, all_examples, all_features, n_best_size, no_answer)
    answers = {qas_id: entries[0]["text"] for qas_id, entries in nbest.items()}
    write_json(output_prediction_file, answers, indent=4)
    write_json(output_nbest_file, nbest, indent=4)
    tf.logging.info("Predictions: %s, n-best: %s", output_prediction_file, output_nbest_file)
    return answers


def _nbest_predictions(
    result_dict: dict,
    all_examples: Sequence[SquadExample],
    all_features: Iterable[InputFeatures | PredictionFeature],
    n_best_size: int,
    no_answer: str,
) -> dict[str, list[dict]]:
    """Returns each question's best answers with different texts, best first; at least one."""
    features = by_example(map(_prediction_feature, all_features))
    return {
        example.qas_id: nbest_of(
            example, features[index], result_dict[index], n_best_size, no_answer
        )
        for index, example in enumerate(all_examples)
    }


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
