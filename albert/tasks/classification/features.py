"""Features of examples: the feature file of a split."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from albert.records import TRAIN
from albert.records.cached_file import CachedFile, Snapshot
from albert.records.feature_file import Chunk, FeatureSource
from albert.records.records import count_records_of_other_writers


class ExampleFeatures(FeatureSource):
    """The features of a split whose examples are read at once.

    `others` are the limits and the advice of `count_records_of_other_writers`, if their files are
    accepted.
    """

    trims = True
    others: tuple[Mapping[str, int], str] | None = None

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

    def check_records_of_other_writers(self) -> int:
        if self.others is None:
            return super().check_records_of_other_writers()
        limits, way_out = self.others
        length, path = self.spec["input_ids"].shape[-1], self.cached.paths[0]
        return count_records_of_other_writers(path, self.spec, length, way_out, limits)

    @functools.cached_property
    def _examples(self) -> list[Any]:
        return self._read()

    def read(self) -> tuple[list[Any], Mapping[str, int]]:
        return self._examples, {}

    def convert(self, examples: Sequence[Any], start: int) -> Chunk:
        return Chunk(len(examples), self._records(examples))

    def source_of(self, snapshot: Snapshot, is_foreign: bool) -> list[Any] | None:
        """Returns the examples, or None for training, which needs only their features."""
        return None if self.name == TRAIN else self._examples
