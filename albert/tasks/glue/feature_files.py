"""The files of a task as feature files, reused where they were made from the same input."""

from __future__ import annotations

from albert.tasks.classification.features import LabelledFeatures
from albert.tasks.glue.examples import DataProcessor
from albert.tasks.glue.features import FeatureMaker
from albert.tokenization import FullTokenizer


class GlueFeatures(LabelledFeatures):
    """The features of a part of a data set."""

    way_out = "give another --cached_dir"

    def __init__(
        self,
        processor: DataProcessor,
        tokenizer: FullTokenizer,
        max_seq_length: int,
        part: str,
        input_file: str,
        feature_file: str,
        workers: int = 1,
    ):
        """Describes the features of `part`, "train", "dev" or "test", with their length."""
        maker = FeatureMaker(tokenizer, processor.get_labels(), max_seq_length)
        super().__init__(
            part,
            processor,
            [input_file],
            feature_file,
            tokenizer,
            [max_seq_length],
            maker.records,
            {"task": type(processor).__name__},
            workers,
        )
