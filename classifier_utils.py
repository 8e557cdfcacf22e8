"""The reference's module of classification functions: names only, the code lives in `glue/`."""

from glue.examples import DataProcessor, InputExample, PaddingInputExample
from glue.features import (
    InputFeatures,
    convert_examples_to_features,
    convert_single_example,
    file_based_convert_examples_to_features,
)
from glue.input_pipeline import file_based_input_fn_builder, input_fn_builder
from glue.model import create_model, model_fn_builder
from glue.tasks import (
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

__all__ = [
    "AXProcessor",
    "ColaProcessor",
    "DataProcessor",
    "InputExample",
    "InputFeatures",
    "MisMnliProcessor",
    "MnliProcessor",
    "MrpcProcessor",
    "PaddingInputExample",
    "QnliProcessor",
    "QqpProcessor",
    "RteProcessor",
    "Sst2Processor",
    "StsbProcessor",
    "WnliProcessor",
    "convert_examples_to_features",
    "convert_single_example",
    "create_model",
    "file_based_convert_examples_to_features",
    "file_based_input_fn_builder",
    "input_fn_builder",
    "model_fn_builder",
]
