"""Classification and regression of texts: the tasks of GLUE, and your own."""

from __future__ import annotations

import collections
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import tensorflow.compat.v1 as tf

from albert.checkpoints.labels import rows_by_name
from albert.checkpoints.model_folder import trained_threshold
from albert.core.errors import FlagError, UserError
from albert.prediction.model import Head
from albert.prediction.session import Output
from albert.records import TEST, TRAIN
from albert.records.batches import Data
from albert.settings.run_settings import RunSettings
from albert.settings.text_settings import DevSplitSettings
from albert.tasks import completed
from albert.tasks.classification.base import ClassificationTask
from albert.tasks.classification.head import make_head
from albert.tasks.classification.metrics import USUAL_THRESHOLD, best_threshold, with_predictions
from albert.tasks.glue.custom import TsvProcessor, with_own_data
from albert.tasks.glue.examples import DataProcessor, InputExample
from albert.tasks.glue.features import make_records
from albert.tasks.glue.settings import CUSTOM, TASKS, TRUNCATE, GlueSettings, TableSettings
from albert.tasks.glue.tasks import PROCESSORS
from albert.tasks.glue.windows import FIRST, pooled
from albert.training.evaluation import CheckpointScores
from albert.training.output_folder import model_to_use
from albert.training.recipe import Facts

_MNLI_TASKS = ("mnli", "mismnli", "ax")
_CUSTOM_FLAGS = {*TableSettings.flags(), *DevSplitSettings.flags(), "label_threshold"}
# Number of examples whose lengths are counted.
_SAMPLE = 10_000


class GlueTask(ClassificationTask):
    """A task of GLUE, or your own."""

    settings: GlueSettings
    kind = "glue"
    processor: DataProcessor
    way_out = "pass another --cached_dir"
    dropout = 0.1
    against_truncation = "pass --long_texts=mean"

    def __init__(self, settings: GlueSettings):
        settings = settings.checked()
        _check_flags(settings)
        # The model that is not trained, and its description.
        uses = settings.do_eval or settings.do_predict or settings.export_dir
        model = completed(model_to_use(settings)) if uses and not settings.do_train else None
        folder, known = (model.path, model.known) if model else ("", {})
        if settings.task_name.lower() == CUSTOM:
            settings = with_own_data(settings, known)
        processor = load_processor(settings, folder, known)
        self._known_threshold = known.get("label_threshold")
        if not {"long_texts", "doc_stride"} & settings.given:
            own = {name: known[name] for name in ("long_texts", "doc_stride") if name in known}
            settings = settings.replaced(**own)
        super().__init__(settings, processor)
        name = settings.task_name.lower()
        # A model may label your own texts, and a model of MNLI is used with three data sets.
        if name not in (CUSTOM, *_MNLI_TASKS):
            self.identity = {"task_name": name}
        if self._stride is not None:
            self.against_truncation = ""
        if isinstance(processor, TsvProcessor):
            self.title = f"Labels: {os.path.basename(os.path.normpath(settings.data_dir))}"
            # `albert predict` labels texts of your own.
            self.label_outputs, self._sha256_of = (), processor.sha256_of
        self.metrics, self.limits = processor.metrics, processor.limits
        self.best_by = processor.metrics[0]
        self._class_weights = self._weights_of_labels()
        self.apply_recipe()

    @classmethod
    def run_several(cls, settings: RunSettings) -> None:
        from albert.tasks.glue.benchmark import run_benchmark

        run_benchmark(cast(GlueSettings, settings))

    def feature_path(self, split: str) -> str:
        settings, name = self.settings, "train" if split == TRAIN else "eval"
        ready = os.path.join(settings.input_file or "", "train.tf_record")
        if split == TRAIN and settings.input_file and os.path.exists(ready):
            return ready
        if split == TEST:
            return os.path.join(settings.output_dir, "predict.tf_record")
        file = f"{settings.task_name.lower()}_{name}.tf_record"
        return os.path.join(settings.feature_path("cached_dir"), file)

    def made_from(self, split: str) -> dict[str, Any]:
        own = {"task": type(self.processor).__name__, **self.processor.made_from()}
        # None as in headers of earlier versions.
        return {**super().made_from(split), **own, "doc_stride": self._stride}

    @property
    def _stride(self) -> int | None:
        """Returns the distance between windows; None if long texts are truncated."""
        return None if self.settings.long_texts == TRUNCATE else self.settings.doc_stride

    def release(self) -> None:
        super().release()
        if isinstance(self.processor, TsvProcessor):
            self.processor.release()

    def facts(self) -> Facts:
        examples = self.ahead
        sample = examples[:: -(-len(examples) // _SAMPLE)]
        texts = (e.text_a for e in sample), (e.text_b or "" for e in sample)
        columns = (self.tokenizer.encode(column, normalized=True) for column in texts)
        lengths = [len(a) + len(b) + (3 if b else 2) for a, b in zip(*columns, strict=True)]
        return Facts(len(examples), lengths, len(self.labels))

    def records(self, examples: Sequence[InputExample]) -> list[bytes]:
        length = self.settings.max_seq_length
        return make_records(examples, self.tokenizer, self.labels, length, self._stride)

    def head(self) -> Head:
        given, own = self.settings.threshold_to_export, self.label_threshold
        exported = own if math.isnan(given) else given
        options: dict[str, Any] = {"label_threshold": own, "class_weights": self._class_weights}
        return make_head(len(self.labels), self.dropout, exported, **options)

    def _weights_of_labels(self) -> list[float] | None:
        """Returns the weight of each label in training; None without a training or weights."""
        if self.settings.class_weights is None:
            return None
        if self.processor.is_regression or self.processor.is_multi_label:
            raise FlagError("--class_weights needs one label per text, not numbers or several")
        if TRAIN not in self.splits:
            return None
        counts, labels = collections.Counter(e.label for e in self.ahead), self.processor.labels
        # As scikit-learn's "balanced": only labels with examples count.
        weights = [counts.total() / (len(counts) * (counts[label] or 1)) for label in labels]
        shown = ", ".join(f"{n} {weight:.4g}" for n, weight in zip(labels, weights, strict=True))
        tf.logging.info("Weights of the labels: %s", shown)
        return weights

    def description(self) -> dict[str, Any]:
        threshold = self.label_threshold
        own = dict[str, Any]()
        if threshold is not None:
            own |= {"multi_label": True, "label_threshold": threshold}
        if self._stride is not None:
            own |= {"long_texts": self.settings.long_texts, "doc_stride": self._stride}
        if isinstance(self.processor, TsvProcessor) and self.settings.do_train:
            own |= self.processor.columns
        if rows := self.processor.rows:
            own["labels"] = [self.labels[rows.index(row)] for row in range(len(rows))]
        return {**super().description(), "limits": self.limits, **own}

    @property
    def label_threshold(self) -> float | None:
        """Returns the probability from which a label is predicted; None for single labels."""
        if not self.processor.is_multi_label:
            return None
        own, folder = self.settings.label_threshold, self.settings.output_dir
        threshold = trained_threshold(own, folder, "label_threshold")
        threshold = self._known_threshold if threshold is None else threshold
        return USUAL_THRESHOLD if threshold is None else threshold

    def predictions(self, data: Data, outputs: Sequence[Output]) -> list[Output]:
        if self._stride is not None:
            windows = list[list[Output]]()
            for output in outputs:
                if output["is_real_example"] == FIRST:
                    windows.append([output])
                elif output["is_real_example"]:
                    windows[-1].append(output)
            outputs = pooled(windows, self.settings.long_texts, self.label_threshold)
        real, rows = super().predictions(data, outputs), self.processor.rows
        for output in real if rows != sorted(rows) else ():
            # In the order of the task's labels.
            output |= {name: output[name][rows] for name in ("probabilities", "logits")}
            output["predictions"] = np.argsort(rows)[output["predictions"]]
        return real

    def score(self, data: Data, outputs: Sequence[Output]) -> CheckpointScores:
        if not self.processor.is_multi_label:
            return super().score(data, outputs)
        outputs, threshold = self.predictions(data, outputs), self.settings.label_threshold
        if threshold is None:
            names = "label_ids", "probabilities"
            threshold = best_threshold(*(np.array([o[name] for o in outputs]) for name in names))
        scored = super().score(data, with_predictions(outputs, threshold))
        return scored._replace(scores={**scored.scores, "label_threshold": threshold})

    def write_labels(self, data: Data, outputs: Sequence[Output], names: Sequence[str]) -> dict:
        if (threshold := self.label_threshold) is not None:
            outputs = with_predictions(outputs, threshold)
        summary = super().write_labels(data, outputs, names)
        if self.processor.submission:
            names = self.label_outputs[1], self.processor.submission
            tf.logging.info("In a submission to GLUE, name %s %s", *names)
        return summary


def _check_flags(settings: GlueSettings) -> None:
    """Raises a `FlagError` if flags contradict each other or the task."""
    name = settings.task_name.lower()
    if settings.is_benchmark():
        raise FlagError(
            "a list of tasks and --seeds are for the command `albert classify`; pass one task and "
            "one --seed"
        )
    if name not in TASKS:
        raise FlagError(
            f"--task_name={settings.task_name} is not a task; use one of {', '.join(TASKS)}"
        )
    for flag in _CUSTOM_FLAGS & settings.given:
        if name != CUSTOM and getattr(settings, flag):
            raise FlagError(f"--{flag} is for --task_name={CUSTOM} only")
    if settings.label_threshold is not None and not settings.multi_label:
        raise FlagError("--label_threshold needs --multi_label")
    if settings.class_weights and settings.input_file and settings.do_train:
        raise FlagError("--class_weights=balanced cannot count the labels in --input_file")
    if name == CUSTOM and settings.do_predict:
        raise FlagError("--do_predict is for the tasks of GLUE: use `albert predict MODEL FILE`")


def load_processor(settings: GlueSettings, folder: str, known: Mapping[str, Any]) -> DataProcessor:
    """Returns the processor of --task_name, with the labels on which the model was trained.

    `known` describes the model in `folder`; it is empty in a training. Raises a `UserError` if the
    model was trained on other labels.
    """
    normalization = bool(settings.spm_model_file), settings.do_lower_case
    processor: DataProcessor
    if settings.task_name.lower() == CUSTOM:
        processor = TsvProcessor(*normalization, settings)
    else:
        processor = PROCESSORS[settings.task_name.lower()](*normalization)
    trained_for = known.get("labels")
    if trained_for is None:
        return processor
    is_same_kind = processor.is_regression == (trained_for == [None])
    has_names = not all(str(label).startswith("LABEL_") for label in trained_for)
    if isinstance(processor, TsvProcessor) and is_same_kind and has_names:
        # The folder of the files to label needs no training file.
        processor.labels = tuple(label for label in trained_for if label is not None)
    labels = processor.get_labels()
    rows, note = rows_by_name(trained_for, labels)
    was_several, several = known.get("multi_label", False), settings.multi_label
    if rows is None or was_several != several:
        raise UserError(
            f"the model in {folder} was trained for {_listed(trained_for, was_several)}, not for "
            f"--task_name={settings.task_name} with {_listed(labels, several)}"
        )
    if note and known.get("task_name") != settings.task_name.lower():
        tf.logging.warning("%s", note)
    if isinstance(processor, TsvProcessor):
        processor.labels = tuple(label for row in np.argsort(rows) if (label := labels[row]))
    else:
        processor.rows = rows
    return processor


def _listed(labels: Sequence[str | None], are_several: bool) -> str:
    names = "numbers" if labels == [None] else f"the labels {', '.join(map(str, labels))}"
    return names + " and --multi_label" * are_several
