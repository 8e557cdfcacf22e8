"""The reference's module of SQuAD functions: names only, of `squad/` and `doors/`."""

from doors.squad_features import FeatureWriter, InputFeatures, convert_examples_to_features
from doors.squad_models import create_v1_model, input_fn_builder, v1_model_fn_builder
from doors.squad_predictions import accumulate_predictions_v1, write_predictions_v1
from squad.examples import SquadExample, read_squad_examples
from squad.predictions import RawResult
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
