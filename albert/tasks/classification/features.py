"""Features of labeled examples: their records, and the feature file of a split."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from albert.data import TRAIN
from albert.data.cached_file import CachedFile
from albert.data.feature_file import Chunk, FeatureFile, FeatureSource, sha256_of_inputs
from albert.data.records import count_records_of_other_writers
from albert.data.sequences import LABELS
from albert.tasks.classification.examples import Processor
from albert.tasks.classification.records import feature_spec, label_shape
from albert.tokenization import FullTokenizer


class ExampleFeatures(FeatureSource):
    """The features of a split whose examples are read at once."""

    trims = True

    def __init__(
        self,
        split: str,
        cached: CachedFile,
        spec: Mapping[str, Any],
        read: Callable[[], list[Any]],
        records: Callable[[Sequence[Any]], list[bytes]],
        workers: int,
    ):
        """Describes the features of "train", "dev" or "test"; `records` converts some examples."""
        self.name, self.cached, self.spec, self.workers = split, cached, spec, workers
        self._read, self._records = read, records

    @functools.cached_property
    def _examples(self) -> list[Any]:
        return self._read()

    def read(self) -> tuple[list[Any], Mapping[str, int]]:
        return self._examples, {}

    def convert(self, examples: Sequence[Any], start: int) -> Chunk:
        del start
        return Chunk(len(examples), self._records(examples))

    def source_of(self, file: FeatureFile) -> list[Any] | None:
        """Returns the examples, or None for training, which needs only their features."""
        return None if self.name == TRAIN else self._examples


class LabelledFeatures(ExampleFeatures):
    """The features of a split of labeled examples, with one record each.

    `way_out` is the advice in messages about a file that is not a feature file.
    """

    way_out = "pass another name"

    def __init__(
        self,
        split: str,
        processor: Processor,
        files: Sequence[str],
        feature_file: str,
        tokenizer: FullTokenizer,
        shape: Sequence[int],
        records: Callable[[Sequence[Any]], list[bytes]],
        more: Mapping[str, Any],
        workers: int = 1,
    ):
        """Describes the features of "train", "dev" or "test".

        Args:
          shape: see `feature_spec`.
          records: makes the record of each example; see `serialize`.
          more: other values that the features depend on.
        """
        labels = processor.get_labels()
        self._limits = {"input_ids": tokenizer.size}
        if labels != [None]:
            self._limits[LABELS] = 2 if processor.is_multi_label else len(labels)
        source = {
            "input_sha256": sha256_of_inputs(files),
            "tokenizer_sha256": tokenizer.sha256,
            "part": split,
            "labels": labels,
            "max_seq_length": shape[-1],
            "do_lower_case": processor.do_lower_case,
            **more,
        }
        super().__init__(
            split,
            CachedFile(feature_file, source, numbers=["num_examples"]),
            feature_spec(shape, labels == [None], label_shape(processor)),
            lambda: processor.read_files(files, split),
            records,
            workers,
        )

    def check_records_of_other_writers(self) -> int:
        length = self.spec["input_ids"].shape[-1]
        path = self.cached.paths[0]
        return count_records_of_other_writers(path, self.spec, length, self.way_out, self._limits)
