"""The base classes of tasks on labeled examples, and files of test predictions."""

from __future__ import annotations

import abc
import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from albert.checkpoints.model_folder import TOKENIZERS
from albert.core.errors import UserError
from albert.prediction.session import Output
from albert.records import DEV, TEST, TRAIN
from albert.records.batches import Data
from albert.records.cached_file import CachedFile, Snapshot
from albert.records.feature_file import Chunk, FeatureSource, sha256_of_inputs
from albert.records.records import count_records_of_other_writers
from albert.records.sequences import LABELS
from albert.report.predictions import View, write_samples
from albert.settings.fields import Affects
from albert.settings.run_settings import RunSettings
from albert.tasks.classification.examples import Processor
from albert.tasks.classification.metrics import chosen, compute_metrics
from albert.tasks.classification.records import feature_spec
from albert.tasks.classification.settings import ClassificationSettings
from albert.tasks.classification.view import labels_view
from albert.training.evaluation import CheckpointScores
from albert.training.plan import Steps
from albert.training.recipe import Facts
from albert.training.task import CONFIG_FLAGS, TextTask

# The flags of the files of splits, unless a task has its data in a folder.
_FILES = {TRAIN: "train_file", DEV: "predict_file", TEST: "test_file"}


class LabelTask(TextTask):
    """A task of examples with labels or numbers, which its files have one by one.

    A task sets `labels`, and has the five abstract methods: what its examples are, their features,
    its head, its scores, and what to show. All else has a default.

    Attributes:
      label_shape: see `feature_spec`.
      sequences: number of sequences of an example, as a shape; empty for a single sequence.
      input_name: name of a split's input in records of its content; by default, its flag.
      way_out: advice in messages about a file of features of another program that does not fit;
        empty if such files are refused.
    """

    label_shape: Sequence[int] = ()
    sequences: ClassVar[Sequence[int]] = ()
    input_name: ClassVar[str] = ""
    way_out: ClassVar[str] = ""

    @classmethod
    def input_flags(cls, settings: RunSettings) -> Mapping[str, str]:
        return {split: flag for split, flag in _FILES.items() if hasattr(settings, flag)}

    @abc.abstractmethod
    def read(self, split: str) -> list[Any]:
        """Returns the examples of a split; raises a `UserError` if its file is not valid."""

    @abc.abstractmethod
    def records(self, examples: Sequence[Any]) -> list[bytes]:
        """Returns the features of some examples, as records with the fields of `model_inputs`."""

    @abc.abstractmethod
    def scores(self, examples: Sequence[Any], predictions: Sequence[Any]) -> dict[str, float]:
        """Returns the scores of predictions by name; one of them is `best_by`."""

    @abc.abstractmethod
    def view(
        self, examples: Sequence[Any], predictions: Sequence[Any], scores: Mapping[str, float]
    ) -> View:
        """Returns the content of `predictions.jsonl` and of the page."""

    @functools.cached_property
    def ahead(self) -> list[Any]:
        """Returns the examples for training, which are kept until `release`."""
        # Before them, so that it is not the hash of later content.
        self.input_sha256(TRAIN)
        return self.read(TRAIN)

    def release(self) -> None:
        """Drops what was read for the training, once its features exist."""
        vars(self).pop("ahead", None)

    def facts(self) -> Facts:
        return Facts(len(self.ahead))

    def predictions(self, data: Data, outputs: Sequence[Output]) -> Sequence[Any]:
        """Returns the prediction for each example, by default the model's outputs."""
        return outputs

    def score(self, data: Data, outputs: Sequence[Output]) -> CheckpointScores:
        examples, predictions = data.source, self.predictions(data, outputs)
        scores = self.scores(examples, predictions)

        def write_outputs() -> None:
            view = self.view(examples, predictions, scores)
            write_samples(self.settings.output_dir, view)

        return CheckpointScores(scores, write_outputs)

    def record_spec(self) -> Mapping[str, Any]:
        """Returns the fields of a record, for `tf.io`'s parser; see `feature_spec`."""
        shape = [*self.sequences, self.settings.max_seq_length]
        return feature_spec(shape, self.labels == [None], self.label_shape)

    def model_inputs(self) -> Mapping[str, Any]:
        spec = self.record_spec()
        return {name: spec[name] for name in spec if name != "is_real_example"}

    def split(self, name: str) -> TaskFeatures:
        source = {
            "input_sha256": self.input_sha256(name),
            "tokenizer_sha256": self.tokenizer.sha256,
            "labels": self.labels,
            **self.made_from(name),
        }
        return TaskFeatures(self, name, CachedFile(self.feature_path(name), source))

    def files(self, split: str) -> list[str]:
        """Returns the files of a split; raises a `UserError` if they are missing."""
        return [self.input_path(split)]

    @functools.cached_property
    def _sha256_of(self) -> Callable[..., str]:
        return functools.cache(sha256_of_inputs)

    def input_sha256(self, split: str) -> str:
        """Returns the hash of the files of a split, for which they are read once."""
        return self._sha256_of(*self.files(split))

    def contents(self, split: str) -> dict[str, Any]:
        name = self.input_name.format(split) or self.input_flags(self.settings)[split]
        return {name: f"sha256:{self.input_sha256(split)[:16]}"}

    def feature_path(self, split: str) -> str:
        """Returns the path of a split's feature file, which may not exist yet."""
        return os.path.join(self.settings.feature_path("cached_dir"), f"{split}.tf_record")

    def made_from(self, split: str) -> dict[str, Any]:
        """Returns further values that the features depend on, by default those of settings."""
        flags = self.settings.flags().items()
        names = [n for n, flag in flags if Affects.FEATURES in flag.affects and not flag.is_path]
        return {name: getattr(self.settings, name) for name in names}


class TaskFeatures(FeatureSource):
    """The features of a split of a task, whose examples are read at once."""

    trims = True

    def __init__(self, task: LabelTask, split: str, cached: CachedFile):
        self.name, self.cached, self._task = split, cached, task
        self.spec, self.workers = task.record_spec(), task.settings.preprocess_workers

    def check_records_of_other_writers(self) -> int:
        task, length = self._task, self.spec["input_ids"].shape[-1]
        if not task.way_out:
            return super().check_records_of_other_writers()
        limits = {"input_ids": task.tokenizer.size}
        if task.labels != [None]:
            limits[LABELS] = 2 if task.label_shape else len(task.labels)
        return count_records_of_other_writers(
            self.cached.paths[0], self.spec, length, task.way_out, limits
        )

    @functools.cached_property
    def _examples(self) -> list[Any]:
        return self._task.ahead if self.name == TRAIN else self._task.read(self.name)

    def prepared(self) -> Data:
        data = super().prepared()
        if self.name == TRAIN:
            self._task.release()
        return data

    def read(self) -> tuple[list[Any], Mapping[str, int]]:
        return self._examples, {}

    def convert(self, examples: Sequence[Any], start: int) -> Chunk:
        return Chunk(len(examples), self._task.records(examples))

    def source_of(self, snapshot: Snapshot, is_foreign: bool) -> list[Any] | None:
        """Returns the examples, or None for training, which needs only their features."""
        return None if self.name == TRAIN else self._examples


class ClassificationTask(LabelTask):
    """A classification or regression task.

    Attributes:
      metrics: names of scores; the first selects the best checkpoint.
      limits: for regression, the range to which written predictions are clipped.
    """

    required = ("data_dir", "task_name", CONFIG_FLAGS, tuple(TOKENIZERS), "output_dir")
    settings: ClassificationSettings
    label_outputs: Sequence[str] = ("test_results.tsv", "submit_results.tsv")
    best_by = "eval_accuracy"
    metrics: Sequence[str] = (best_by,)
    input_name = "{}_file"
    way_out = "pass another name"
    limits: tuple[float, float] | None = None
    needs_all_states = False
    against_truncation = "raise --max_seq_length"

    def __init__(self, settings: ClassificationSettings, processor: Processor):
        super().__init__(settings)
        self.processor, self.labels = processor, processor.get_labels()
        # Of the page of predictions.
        self.title = settings.task_name
        processor.keep_accents = settings.keep_accents
        self.label_shape = [len(self.labels)] if processor.is_multi_label else []

    @classmethod
    def input_flags(cls, settings: RunSettings) -> Mapping[str, str]:
        return dict.fromkeys(cls.done_by, "data_dir")

    def files(self, split: str) -> list[str]:
        return self.processor.files_of(self.settings.data_dir, split)

    def read(self, split: str) -> list[Any]:
        return self.processor.read_files(self.files(split), split)

    def made_from(self, split: str) -> dict[str, Any]:
        length = {"max_seq_length": self.settings.max_seq_length}
        return {"part": split, **length, **self.tokenizer.normalization._asdict()}

    def contents(self, split: str) -> dict[str, Any]:
        return {"task_name": self.settings.task_name.lower(), **super().contents(split)}

    def steps(self, num_examples: int) -> Steps:
        steps, own = super().steps(num_examples), self.settings.warmup_step
        # A given proportion replaces a default number of steps.
        if own and ("warmup_step" in self.settings.given or not self.settings.warmup_proportion):
            return steps._replace(num_warmup_steps=own)
        return steps

    def description(self) -> dict[str, Any]:
        return {"task_name": self.settings.task_name.lower()}

    def predictions(self, data: Data, outputs: Sequence[Output]) -> list[Output]:
        """Returns the outputs of real examples, without those that only fill a batch.

        Raises a `UserError` if the features belong to other examples.
        """
        real = [output for output in outputs if output["is_real_example"]]
        if len(data.source) != len(real):
            raise UserError(
                f"{data.files[0]} has {len(real)} features, but the data set in "
                f"{self.settings.data_dir} has {len(data.source)} examples; remove the feature file"
            )
        return real

    def scores(self, examples: Sequence[Any], predictions: Sequence[Output]) -> dict[str, float]:
        names = "label_ids", "logits", "predictions"
        columns = (np.array([output[name] for output in predictions]) for name in names)
        return compute_metrics(self.metrics, *columns)

    def view(
        self, examples: Sequence[Any], predictions: Sequence[Output], scores: Mapping[str, float]
    ) -> View:
        texts = [self.processor.display_parts(example) for example in examples]
        return labels_view(self.title, texts, predictions, self.labels, scores)

    def write_labels(self, data: Data, outputs: Sequence[Output], names: Sequence[str]) -> dict:
        """Writes a file of probabilities, or numbers in regression, and one for a submission.

        The latter, in GLUE's format, has ids and predicted labels; several labels are a JSON list.
        """
        outputs = self.predictions(data, outputs)
        with open(names[0], "w", encoding="utf-8") as file:
            for output in outputs:
                file.write("\t".join(map(str, output["probabilities"])) + "\n")
        with open(names[1], "w", encoding="utf-8") as file:
            file.write("index\tprediction\n")
            for example, output in zip(data.source, outputs, strict=True):
                answer = self._answer(output["predictions"])
                file.write(f"{self.processor.display_parts(example)['id']}\t{answer}\n")
        return {"num_examples": len(outputs)}

    def _answer(self, prediction: np.ndarray) -> str:
        names = [label for label in self.labels if label is not None]
        if np.ndim(prediction):
            return json.dumps(chosen(names, prediction), ensure_ascii=False)
        if names:
            return names[int(prediction)]
        low, high = self.limits or (prediction, prediction)
        return str(min(max(prediction, low), high))
