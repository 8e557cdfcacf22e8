"""The RACE task: choosing one of four options for each question on a passage."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import cast

from albert.checkpoints.model_folder import Assets
from albert.core.errors import FlagError
from albert.prediction.model import Head
from albert.settings.run_settings import RunSettings
from albert.tasks.classification.base import ClassificationTask, check_flags
from albert.tasks.classification.features import LabelledFeatures
from albert.tasks.race.examples import LABELS, RaceProcessor
from albert.tasks.race.features import SPECIAL_TOKENS, make_records
from albert.tasks.race.head import make_race_head
from albert.tasks.race.settings import RaceSettings
from albert.training.encoder_task import check_room

# The setting that names the feature file of each split.
_FEATURE_FILES = {"train": "train_file", "dev": "eval_file", "test": "predict_file"}


class RaceTask(ClassificationTask):
    """The RACE task."""

    settings: RaceSettings
    kind = "race"
    processor: RaceProcessor
    sequences = (len(LABELS),)
    input_name = "data_dir"

    def __init__(self, settings: RaceSettings):
        check_flags(settings)
        check_room(settings, "max_qa_length", SPECIAL_TOKENS)
        levels = settings.high_only, settings.middle_only
        if all(levels):
            raise FlagError("--high_only and --middle_only exclude each other; pass only one")
        processor = RaceProcessor(bool(settings.spm_model_file), settings.do_lower_case, *levels)
        super().__init__(settings, processor, settings.dropout_prob)

    @classmethod
    def downloads(cls, settings: RunSettings) -> dict[str, Sequence[str]]:
        parent = cast(RaceSettings, settings).data_dir
        folder = os.path.join(parent or "", "RACE")
        if not parent or os.path.exists(folder):
            return {}
        return {f"{folder} of --data_dir": ("race", f"--data_dir={parent}")}

    def split(self, name: str) -> LabelledFeatures:
        settings, processor = self.settings, self.processor
        lengths = settings.max_seq_length, settings.max_qa_length
        return LabelledFeatures(
            name,
            processor,
            processor.files_of(settings.data_dir, name),
            settings.feature_path(_FEATURE_FILES[name]),
            self.tokenizer,
            self.feature_shape(),
            functools.partial(make_records, tokenizer=self.tokenizer, lengths=lengths),
            {"max_qa_length": settings.max_qa_length, "levels": processor.levels},
            settings.preprocess_workers,
        )

    def assets(self) -> Assets:
        description, files = super().assets()
        return Assets({**description, "max_qa_length": self.settings.max_qa_length}, files)

    def head(self) -> Head:
        return make_race_head(self.dropout, len(LABELS))
