"""Classification and regression of texts: the tasks of GLUE, and your own."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Sequence
from typing import Any, cast

import tensorflow.compat.v1 as tf

from albert.core.errors import FlagError, UserError
from albert.data.batches import Data
from albert.distributed import collectives
from albert.settings.run_settings import RunSettings
from albert.tasks.classification import head
from albert.tasks.classification.base import ClassificationTask, check_flags
from albert.tasks.classification.head import ClassifierOutput, classified, pooled_scores
from albert.tasks.glue.custom import TsvProcessor
from albert.tasks.glue.examples import DataProcessor
from albert.tasks.glue.features import GlueFeatures
from albert.tasks.glue.settings import CUSTOM, TASKS, GlueSettings
from albert.tasks.glue.tasks import PROCESSORS
from albert.training.assets import Assets
from albert.training.model_fn import Head
from albert.training.output_folder import checkpoint_to_use
from albert.training.prediction import Output
from albert.training.run_record import recorded_settings
from albert.training.task import TEST, TRAIN

_OF_MNLI = ("mnli", "mismnli", "ax")


class GlueTask(ClassificationTask):
    """A task of GLUE, or your own."""

    settings: GlueSettings
    kind = "glue"
    processor: DataProcessor

    def __init__(self, settings: GlueSettings):
        processor = load_processor(settings)
        super().__init__(settings, processor, dropout=0.1)
        self.metrics, self.limits = processor.metrics, processor.limits

    @classmethod
    def downloads(cls, settings: RunSettings) -> dict[str, Sequence[str]]:
        flags, found = cast(GlueSettings, settings), dict[str, Sequence[str]]()
        for one in flags.sets():
            # Your own data have no processor here.
            processor = PROCESSORS.get(one.task_name.lower())
            if processor is None or not flags.data_dir:
                continue
            folder = os.path.join(flags.data_dir, processor.folder)
            if not os.path.exists(folder):
                words = "glue", f"--tasks={processor.folder}", f"--data_dir={flags.data_dir}"
                found[f"{folder} of --data_dir"] = words
        return found

    def identity(self) -> dict[str, Any]:
        # A model may label your own texts, and a model of MNLI is used with three data sets.
        name = self.settings.task_name.lower()
        others = {} if name in (CUSTOM, *_OF_MNLI) else {"task_name": name}
        return {**super().identity(), **others}

    def split(self, name: str) -> GlueFeatures:
        settings = self.settings
        return GlueFeatures(
            self.processor,
            self.tokenizer,
            settings.max_seq_length,
            name,
            self.processor.path(settings.data_dir, name),
            _feature_path(settings, name),
            settings.preprocess_workers,
        )

    def head(self) -> Head:
        threshold = self.settings.threshold_to_export
        return make_head(
            len(self.labels), self.dropout, None if math.isnan(threshold) else threshold
        )

    def assets(self) -> Assets:
        description, files = super().assets()
        return Assets({**description, "limits": self.limits}, files)

    def write_labels(self, data: Data, outputs: list[Output], names: Sequence[str]) -> dict:
        summary = super().write_labels(data, outputs, names)
        if self.processor.submission:
            tf.logging.info(
                "In a submission to GLUE, name %s %s",
                self.label_outputs[1],
                self.processor.submission,
            )
        return summary


def _feature_path(settings: GlueSettings, part: str) -> str:
    """Returns the path of a split's feature file, which may not exist yet."""
    cached, task = settings.cached_dir or settings.output_dir, settings.task_name.lower()
    ready = os.path.join(settings.input_file or "", "train.tf_record")
    if part == TRAIN and settings.input_file and os.path.exists(ready):
        return ready
    if part == TEST:
        return os.path.join(settings.output_dir, "predict.tf_record")
    return os.path.join(cached, f"{task}_{'train' if part == TRAIN else 'eval'}.tf_record")


def make_processor(settings: GlueSettings) -> DataProcessor:
    """Returns the processor of --task_name.

    Raises:
      FlagError, UserError: see `check_flags`; or the task does not exist.
    """
    check_flags(settings)
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
    if settings.tsv_regression and name != CUSTOM:
        raise FlagError(f"--tsv_regression is for --task_name={CUSTOM} only")
    use_spm = bool(settings.spm_model_file)
    if name == CUSTOM:
        return TsvProcessor(
            use_spm, settings.do_lower_case, settings.data_dir, settings.tsv_regression
        )
    return PROCESSORS[name](use_spm=use_spm, do_lower_case=settings.do_lower_case)


def load_processor(settings: GlueSettings) -> DataProcessor:
    """Returns the processor of --task_name, with the labels on which the model was trained.

    Raises:
      FlagError, UserError: see `make_processor`.
      UserError: the model was trained on other labels.
    """
    processor = make_processor(settings)
    if settings.do_train:
        return processor
    folder = _folder_of_model(settings)
    trained_for = (recorded_settings(folder) or {}).get("labels")
    if trained_for is None:
        return processor
    is_same_kind = processor.is_regression == (trained_for == [None])
    if isinstance(processor, TsvProcessor) and is_same_kind:
        # The folder of the files to label needs no training file.
        processor.labels = tuple(label for label in trained_for if label is not None)
    if not is_same_kind or processor.get_labels() != trained_for:
        raise UserError(
            f"the model in {folder} was trained for {_listed(trained_for)}, not for "
            f"--task_name={settings.task_name}{' --tsv_regression' * settings.tsv_regression}"
            + (f" with {_listed(processor.get_labels())}" if is_same_kind else "")
        )
    return processor


def _folder_of_model(settings: GlueSettings) -> str:
    try:
        return os.path.dirname(os.path.abspath(checkpoint_to_use(settings)))
    except UserError:
        if collectives.is_chief():
            raise
        # Only rank 0's host needs the model's folder.
        return settings.output_dir


def _listed(labels: Sequence[str | None]) -> str:
    return "numbers" if labels == [None] else f"the labels {', '.join(map(str, labels))}"


def classify(
    pooled: tf.Tensor,
    labels: tf.Tensor | None,
    dropout: float,
    num_labels: int,
) -> ClassifierOutput:
    """Builds the head.

    Args:
      pooled: float32 [B, H], the encoder's pooled output.
      labels: int32 [B]; for regression, float32 [B]; None to compute no losses.
      dropout: dropout rate of the pooled output; 0 outside training.
      num_labels: number of labels C; 1 for regression, whose loss is the squared difference.
    """
    scores = pooled_scores(pooled, num_labels, dropout)
    if num_labels > 1:
        return classified(scores, labels)
    numbers = tf.squeeze(scores, [-1])
    losses = None if labels is None else tf.square(numbers - labels)
    return ClassifierOutput(losses, scores, numbers, numbers)


def make_head(num_labels: int, dropout: float, threshold: float | None = None) -> Head:
    """Returns the head of a classification or, if `num_labels` is 1, of a regression.

    Args:
      num_labels: see `classify`.
      dropout, threshold: see `albert.tasks.classification.head.make_head`.
    """
    return head.make_head(functools.partial(classify, num_labels=num_labels), dropout, threshold)
