"""The RACE task: choosing one of four options for each question on a passage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from albert.core.errors import FlagError
from albert.prediction.model import Head
from albert.tasks.classification.base import ClassificationTask
from albert.tasks.classification.head import make_choice_head
from albert.tasks.race.examples import (
    LABELS,
    SPECIAL_TOKENS,
    InputExample,
    RaceProcessor,
    make_records,
)
from albert.tasks.race.settings import RaceSettings
from albert.training.task import check_room


class RaceTask(ClassificationTask):
    """The RACE task."""

    settings: RaceSettings
    kind = "race"
    processor: RaceProcessor
    sequences = (len(LABELS),)
    input_name = "data_dir"

    def __init__(self, settings: RaceSettings):
        check_room(settings, "max_qa_length", SPECIAL_TOKENS)
        levels = settings.high_only, settings.middle_only
        if all(levels):
            raise FlagError("--high_only and --middle_only exclude each other; pass only one")
        processor = RaceProcessor(bool(settings.spm_model_file), settings.do_lower_case, *levels)
        super().__init__(settings, processor)

    def feature_path(self, split: str) -> str:
        names = {"train": "train_file", "dev": "eval_file", "test": "predict_file"}
        return self.settings.feature_path(names[split])

    def made_from(self, split: str) -> dict[str, Any]:
        own = {"max_qa_length": self.settings.max_qa_length, "levels": self.processor.levels}
        return {**super().made_from(split), **own}

    def records(self, examples: Sequence[InputExample]) -> list[bytes]:
        lengths = self.settings.max_seq_length, self.settings.max_qa_length
        return make_records(examples, self.tokenizer, lengths)

    def head(self) -> Head:
        return make_choice_head(self.dropout, len(LABELS))
