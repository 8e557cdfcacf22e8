"""The RACE task: choosing one of four options for each question on a passage."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from typing import cast

import tensorflow.compat.v1 as tf

from albert import modeling
from albert.checkpoints.model_folder import Assets
from albert.core.errors import FlagError
from albert.data.sequences import SEQUENCE_KEYS
from albert.prediction.model import Encode, Head, HeadOutput
from albert.settings.run_settings import RunSettings
from albert.tasks.classification.base import ClassificationTask, check_flags
from albert.tasks.classification.features import LabelledFeatures
from albert.tasks.classification.head import ClassifierOutput, classified, make_head, pooled_scores
from albert.tasks.race.examples import LABELS, RaceProcessor
from albert.tasks.race.features import SPECIAL_TOKENS, make_records
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


def choose(
    pooled: tf.Tensor, labels: tf.Tensor | None, dropout: float, num_options: int
) -> ClassifierOutput:
    """Builds the layer that scores N options per example from pooled outputs [B * N, H]."""
    return classified(tf.reshape(pooled_scores(pooled, 1, dropout), [-1, num_options]), labels)


def one_a_row(sequences: Mapping[str, tf.Tensor], num_options: int) -> dict[str, tf.Tensor]:
    """Reshapes ids, mask and segments, int32 [B, N, S] or [B, N * S], to [B * N, S]."""
    *more, length = modeling.get_shape_list(sequences["input_ids"])[1:]
    length = length if more else length // num_options
    return {key: tf.reshape(sequences[key], [-1, length]) for key in SEQUENCE_KEYS}


def make_race_head(dropout: float, num_options: int) -> Head:
    """Returns the head; `dropout` is the dropout rate in training."""
    choosing = make_head(functools.partial(choose, num_options=num_options), dropout)

    def head(encode: Encode, features: Mapping[str, tf.Tensor], is_training: bool) -> HeadOutput:
        return choosing(
            lambda f, positions: encode(one_a_row(f, num_options), positions), features, is_training
        )

    return head
