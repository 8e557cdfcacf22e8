"""The reference's module of functions for classification; its names are from `reference_api`."""

from albert.reference_api.glue import (  # noqa: F401
    InputFeatures,
    PaddingInputExample,
    convert_examples_to_features,
    convert_single_example,
    create_model,
    file_based_convert_examples_to_features,
    file_based_input_fn_builder,
    input_fn_builder,
    model_fn_builder,
)
from albert.tasks.glue.examples import DataProcessor, InputExample  # noqa: F401
from albert.tasks.glue.tasks import (  # noqa: F401
    AXProcessor,
    ColaProcessor,
    MisMnliProcessor,
    MnliProcessor,
    MrpcProcessor,
    QnliProcessor,
    QqpProcessor,
    RteProcessor,
    Sst2Processor,
    StsbProcessor,
    WnliProcessor,
)
