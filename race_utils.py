"""The reference's module of RACE's functions: names only, of `race/` and `doors/`."""

from doors.glue_models import file_based_input_fn_builder
from doors.race import (
    convert_single_example,
    create_model,
    file_based_convert_examples_to_features,
    model_fn_builder,
)
from race.examples import InputExample, RaceProcessor

__all__ = [
    "InputExample",
    "RaceProcessor",
    "convert_single_example",
    "create_model",
    "file_based_convert_examples_to_features",
    "file_based_input_fn_builder",
    "model_fn_builder",
]
