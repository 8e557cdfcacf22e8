"""The task of finding named entities: spans of words, from a tag for each word."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from albert.core.errors import FlagError, UserError
from albert.core.files import content_of
from albert.data import DEV, TEST, TRAIN
from albert.data.annotations import AnnotatedText, read_annotated, write_annotated
from albert.data.batches import Data
from albert.data.cached_file import CachedFile
from albert.data.feature_file import sha256_of_input
from albert.prediction.model import Head
from albert.prediction.session import Output
from albert.report.predictions import write_samples
from albert.report.spans import Span, span_scores, spans_view
from albert.tasks.classification.base import LabelTask
from albert.tasks.classification.features import ExampleFeatures
from albert.tasks.entities.features import Tagger
from albert.tasks.entities.head import make_head
from albert.tasks.entities.settings import EntitiesSettings
from albert.training.evaluation import CheckpointScores
from albert.training.output_folder import recorded_labels
from albert.training.plan import steps_with_warmup


class EntitiesTask(LabelTask):
    """The task of finding named entities; its labels are tags."""

    settings: EntitiesSettings
    kind = "entities"
    input_flags = {TRAIN: "train_file", DEV: "predict_file", TEST: "test_file"}
    label_outputs = ("test_predictions.jsonl",)
    metrics = ("f1",)

    def __init__(self, settings: EntitiesSettings):
        super().__init__(settings, (), dropout=0.1)
        if not (self._splits or settings.export_dir):
            raise FlagError("nothing to do: pass --train_file, --predict_file or --test_file")
        self._read = functools.cache(self._read_file)
        self.labels = self._new_tags() if TRAIN in self._splits else recorded_labels(settings)
        self._tagger = Tagger(self.tokenizer, self.labels, settings.max_seq_length)

    def _new_tags(self) -> list[str]:
        labels = sorted({span.label or "" for text in self._read(TRAIN) for span in text.spans})
        if not labels:
            raise UserError(f"--train_file {self.settings.train_file} has no entities")
        prefixes = self.settings.tagging.replace("O", "")
        return ["O", *(f"{prefix}-{label}" for label in labels for prefix in prefixes)]

    def _path(self, split: str) -> str:
        return getattr(self.settings, self.input_flags[split])

    def _read_file(self, split: str) -> list[AnnotatedText]:
        labels = () if split == TRAIN else self._tagger.labels
        return read_annotated(self._path(split), labels, is_labeled=split != TEST)

    def split(self, name: str) -> ExampleFeatures:
        settings, tagger = self.settings, self._tagger
        source = {
            "input_sha256": sha256_of_input(self._path(name)),
            "tokenizer_sha256": self.tokenizer.sha256,
            "do_lower_case": settings.do_lower_case,
            "labels": self.labels,
            "max_seq_length": settings.max_seq_length,
        }
        file = os.path.join(settings.feature_path("cached_dir"), f"{name}.tf_record")
        cached = CachedFile(file, source, numbers=["num_examples", "num_features"])
        read, workers = functools.partial(self._read, name), settings.preprocess_workers
        return ExampleFeatures(name, cached, tagger.spec, read, tagger.records, workers)

    def contents(self, split: str) -> dict[str, Any]:
        return {**super().contents(split), self.input_flags[split]: content_of(self._path(split))}

    def steps(self, num_examples: int) -> tuple[int, int]:
        return steps_with_warmup(self.settings, num_examples, self.settings.train_file)

    def head(self) -> Head:
        return make_head(len(self.labels), self.dropout)

    def model_inputs(self) -> Mapping[str, Any]:
        return self._tagger.spec

    def _spans(self, data: Data, outputs: Sequence[Output]) -> Iterator[list[Span]]:
        return self._tagger.spans(((text.text, text.words) for text in data.source), outputs)

    def score(self, data: Data, outputs: Sequence[Output]) -> CheckpointScores:
        predicted, truths = list(self._spans(data, outputs)), [text.spans for text in data.source]
        scores = span_scores(predicted, truths)

        def write_outputs() -> None:
            texts = {f"line {text.location.line}": text.text for text in data.source}
            title = f"Entities: {os.path.basename(self.settings.predict_file)}"
            view = spans_view(title, texts, predicted, truths, scores)
            write_samples(self.settings.output_dir, view)

        return CheckpointScores(scores, write_outputs)

    def write_labels(self, data: Data, outputs: Sequence[Output], names: Sequence[str]) -> dict:
        write_annotated(names[0], data.source, self._spans(data, outputs))
        return {"num_examples": len(data.source)}
