"""The reference's module of SQuAD functions: names only, the code lives in `squad/`."""

from squad.examples import SquadExample, read_squad_examples
from squad.features import InputFeatures, convert_examples_to_features
from squad.input_pipeline import input_fn_builder
from squad.model import create_v1_model, v1_model_fn_builder
from squad.predictions import RawResult, accumulate_predictions_v1, write_predictions_v1
from squad.records import FeatureWriter
from squad.scoring import (
    evaluate_v1,
    exact_match_score,
    f1_score,
    metric_max_over_ground_truths,
    normalize_answer_v1,
)

__all__ = [
    "FeatureWriter",
    "InputFeatures",
    "RawResult",
    "SquadExample",
    "accumulate_predictions_v1",
    "convert_examples_to_features",
    "create_v1_model",
    "evaluate_v1",
    "exact_match_score",
    "f1_score",
    "input_fn_builder",
    "metric_max_over_ground_truths",
    "normalize_answer_v1",
    "read_squad_examples",
    "v1_model_fn_builder",
    "write_predictions_v1",
]
