"""The task of finding named entities: spans of words, from a tag for each word."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

from albert.checkpoints.model_folder import ModelFolder, recorded_settings
from albert.core.errors import FlagError, UserError
from albert.core.log import LOG
from albert.prediction.model import Head
from albert.prediction.session import Output
from albert.records import DEV, TEST, TRAIN
from albert.records.batches import Data
from albert.report.predictions import View
from albert.report.spans import Span, span_scores, spans_view
from albert.settings.run_settings import RunSettings
from albert.tables.bad_rows import BadRows
from albert.tables.dev_split import DevSplit, made_from
from albert.tables.kinds import standoff_files
from albert.tasks import completed
from albert.tasks.classification.base import LabelTask
from albert.tasks.entities.annotation_exports import open_annotated
from albert.tasks.entities.annotations import AnnotatedText, as_bioes, write_annotated
from albert.tasks.entities.features import Tagger, decide_units
from albert.tasks.entities.head import make_head
from albert.tasks.entities.settings import AUTO, CHARACTER, PIECE, WORD, EntitiesSettings
from albert.training.output_folder import model_to_use
from albert.training.recipe import Facts


class EntitiesTask(LabelTask):
    """The task of finding named entities; its labels are tags."""

    settings: EntitiesSettings
    kind, best_by = "entities", "f1"
    label_outputs = ("test_predictions.jsonl",)
    dropout = 0.1

    def __init__(self, settings: EntitiesSettings):
        super().__init__(settings)
        self._texts = functools.cache(self._read_texts)
        model = None if TRAIN in self.splits else completed(model_to_use(settings))
        self._units, self._dev_split = self._known_units(model), DevSplit.of(settings)
        self.labels = self._known_tags(model) if model else self._new_tags()
        if not self._units:
            self._units = decide_units(self._texts(TRAIN), self.tokenizer)
            LOG.info("%s: each %s gets a tag", settings.train_file, self._units)
        self.apply_recipe()
        settings = self.settings
        tags, length = as_bioes(self.labels), settings.max_seq_length
        self._tagger = Tagger(self.tokenizer, tags, length, self._units)
        # As in the records of earlier versions, nothing is recorded for words.
        self._own = {"entity_units": self._units} if self._units in (PIECE, CHARACTER) else {}

    @classmethod
    def input_flags(cls, settings: RunSettings) -> Mapping[str, str]:
        dev_flag = cast(EntitiesSettings, settings).dev_flag()
        return {**super().input_flags(settings), DEV: dev_flag}

    def facts(self) -> Facts:
        texts = self.read(TRAIN)
        lengths = [len(ids) + 2 for ids in self.tokenizer.encode(text.text for text in texts)]
        return Facts(len(texts), lengths)

    def _known_units(self, model: ModelFolder | None) -> str:
        """Returns the units of tags that the model was trained with; "" if the data decides."""
        settings, known = self.settings, model.known if model else None
        if not model and not settings.overwrite_output_dir:
            known = recorded_settings(settings.output_dir)
        if known is None or not (model or settings.entity_units == AUTO):
            return settings.entity_units.replace(AUTO, "")
        units = known.get("entity_units")
        units = units if units in (PIECE, CHARACTER) else WORD
        if settings.entity_units not in (AUTO, units):
            raise FlagError(f"the model has a tag for each {units}; pass --entity_units={units}")
        return units

    def _known_tags(self, model: ModelFolder) -> list[str]:
        folder, labels = model.path, model.known.get("labels")
        if labels:
            return labels
        raise UserError(f"{folder} has no record of a training with labels; train a model first")

    def _new_tags(self) -> list[str]:
        # Those of the development part, too.
        labels = sorted({span.label or "" for text in self._texts(TRAIN) for span in text.spans})
        if not labels:
            raise UserError(f"--train_file {self.settings.train_file} has no entities")
        return ["O", *(f"{prefix}-{label}" for label in labels for prefix in "BI")]

    def read(self, split: str) -> list[AnnotatedText]:
        if split == TEST or not (dev := self._dev_split):
            return self._texts(split)
        texts = self._texts(TRAIN)
        chosen = dev.chosen(((text.text, "") for text in texts), self.input_path(TRAIN))
        return [text for text in texts if (dev.rank(text.text) in chosen) == (split == DEV)]

    def _read_texts(self, split: str) -> list[AnnotatedText]:
        """Returns the texts of a file."""
        labels = () if split == TRAIN and TRAIN in self.splits else self._tagger.labels
        path = self.input_path(split)
        bad = BadRows(path, self.settings.on_bad_row)
        file = open_annotated(path, split != TEST, self.settings)
        # Before the texts, so that it is not the hash of later content.
        self.input_sha256(split)
        texts = file.read(labels, bad)
        bad.finish()
        if not texts:
            raise UserError(f"{path} has no usable texts")
        return texts

    def files(self, split: str) -> list[str]:
        path = self.input_path(split)
        names = [file.removesuffix("ann") for file in standoff_files(path)]
        return [f"{name}{ending}" for name in names for ending in ("ann", "txt")] or [path]

    def contents(self, split: str) -> dict[str, Any]:
        return {**super().contents(split), **self._own}

    def made_from(self, split: str) -> dict[str, Any]:
        # The labels are the tags.
        source = {**super().made_from(split), "entity_units": self._own.get("entity_units", AUTO)}
        return source | (made_from(self._dev_split) if self._dev_split else {})

    def description(self) -> dict[str, Any]:
        return self._own

    def records(self, examples: Sequence[AnnotatedText]) -> list[bytes]:
        return self._tagger.records(examples)

    def record_spec(self) -> Mapping[str, Any]:
        return self._tagger.spec

    def head(self) -> Head:
        return make_head(len(self.labels), self.dropout)

    def predictions(self, data: Data, outputs: Sequence[Output]) -> list[list[Span]]:
        texts = ((text.text, text.words) for text in data.source)
        return list(self._tagger.spans(texts, outputs))

    def scores(
        self, examples: Sequence[AnnotatedText], predictions: Sequence[list[Span]]
    ) -> dict[str, float]:
        return span_scores(predictions, [text.spans for text in examples])

    def view(
        self,
        examples: Sequence[AnnotatedText],
        predictions: Sequence[list[Span]],
        scores: Mapping[str, float],
    ) -> View:
        texts = {text.location.name: text.text for text in examples}
        title = f"Entities: {os.path.basename(self.input_path(DEV))}"
        return spans_view(title, texts, predictions, [text.spans for text in examples], scores)

    def write_labels(self, data: Data, outputs: Sequence[Output], names: Sequence[str]) -> dict:
        write_annotated(names[0], data.source, self.predictions(data, outputs))
        return {"num_examples": len(data.source)}
