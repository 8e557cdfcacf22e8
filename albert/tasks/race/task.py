"""RACE as a task: the right one of four options for every question on a passage."""

from __future__ import annotations

import functools
import os

from albert.core.errors import FlagError
from albert.settings.flags import Settings
from albert.tasks.classification.base import ClassificationTask, check_flags
from albert.tasks.classification.features import LabelledFeatures
from albert.tasks.race.examples import LABELS, RaceProcessor
from albert.tasks.race.features import SPECIAL_TOKENS, make_records
from albert.tasks.race.flags import FEATURE_FLAGS
from albert.tasks.race.head import make_race_head
from albert.training.assets import Assets
from albert.training.encoder_task import Head, check_room


class RaceTask(ClassificationTask):
    """RACE under the flags."""

    kind = "race"
    sequences = (len(LABELS),)
    input_name = "data_dir"

    def __init__(self, settings: Settings):
        check_flags(settings)
        check_room(settings, "max_qa_length", SPECIAL_TOKENS)
        levels = settings.high_only, settings.middle_only
        if all(levels):
            raise FlagError("--high_only and --middle_only leave nothing; give one of them")
        processor = RaceProcessor(bool(settings.spm_model_file), settings.do_lower_case, *levels)
        super().__init__(settings, processor, settings.dropout_prob)

    def part(self, name: str) -> LabelledFeatures:
        settings, processor = self.settings, self.processor
        lengths = settings.max_seq_length, settings.max_qa_length
        own = os.path.join(settings.output_dir, f"{name}.tf_record")
        return LabelledFeatures(
            name,
            processor,
            processor.files_of(settings.data_dir, name),
            getattr(settings, FEATURE_FLAGS[name]) or own,
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
