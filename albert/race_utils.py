"""The reference's module of functions for RACE; its names are from `reference_api`."""

from albert.reference_api.glue import file_based_input_fn_builder  # noqa: F401
from albert.reference_api.race import (  # noqa: F401
    convert_single_example,
    create_model,
    file_based_convert_examples_to_features,
    model_fn_builder,
)
from albert.tasks.race.examples import InputExample, RaceProcessor  # noqa: F401
