"""Raw outputs of the SQuAD 2.0 head to answers and abstentions."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from albert.tasks.squad.predictions import FindSpans, Spans, likely_spans
from albert.tasks.squad.token_places import PredictionFeature

# As `albert.tasks.squad.predictions.NO_ANSWER`, with the reference's scores.
NO_ANSWER_V2 = {"text": "", "probability": 1.0, "start_log_prob": -1e6, "end_log_prob": -1e6}
# The log-odds of a question without features.
_NO_FEATURES = 1000000

RawResultV2 = collections.namedtuple(
    "RawResultV2",
    [
        "unique_id",
        "start_top_log_probs",
        "start_top_index",
        "end_top_log_probs",
        "end_top_index",
        "cls_logits",
    ],
)


def raw_results_v2(outputs: Iterable[Mapping[str, Any]]) -> dict[int, RawResultV2]:
    """Returns the model's outputs for features, by their unique id."""
    fields = RawResultV2._fields[1:]
    results = (
        RawResultV2(int(o["unique_ids"]), **{key: o[key] for key in fields}) for o in outputs
    )
    return {result.unique_id: result for result in results}


def spans_v2(max_answer_length: int) -> FindSpans:
    """Returns what finds candidates in a `RawResultV2`: its starts, with the ends of each."""

    def find_spans(feature: PredictionFeature, result: RawResultV2) -> Spans:
        starts = np.asarray(result.start_top_index), np.asarray(result.start_top_log_probs)
        ends = (
            np.asarray(of_pairs).reshape(len(starts[0]), -1)
            for of_pairs in (result.end_top_index, result.end_top_log_probs)
        )
        return likely_spans(feature, starts, tuple(ends), max_answer_length)

    return find_spans


def no_answer_odds(
    num_examples: int, features: Iterable[PredictionFeature], results: Mapping[int, RawResultV2]
) -> list[float]:
    """Returns the log-odds of each example that it has no answer: the least of its features'."""
    odds = [_NO_FEATURES] * num_examples
    for feature in features:
        of_feature = float(results[feature.unique_id].cls_logits)
        odds[feature.example_index] = min(odds[feature.example_index], of_feature)
    return odds
