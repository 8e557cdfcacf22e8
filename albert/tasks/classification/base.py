"""The base class of classification tasks, and files of test predictions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from albert.checkpoints.model_folder import TOKENIZERS, Assets
from albert.core.errors import FlagError, UserError
from albert.data import DEV, TEST, TRAIN
from albert.data.batches import Data
from albert.data.feature_file import sha256_of_inputs
from albert.prediction.session import Output
from albert.report.predictions import write_samples
from albert.settings.run_settings import RunSettings
from albert.tasks.classification.examples import Processor
from albert.tasks.classification.features import LabelledFeatures
from albert.tasks.classification.metrics import compute_metrics
from albert.tasks.classification.multi_label import chosen
from albert.tasks.classification.records import feature_spec, label_shape
from albert.tasks.classification.settings import ClassificationSettings
from albert.tasks.classification.view import labels_view
from albert.training.encoder_task import CONFIG_FLAGS, TextTask
from albert.training.evaluation import CheckpointScores
from albert.training.plan import steps_of_epochs
from albert.training.task import is_wanted

_DO = {TRAIN: "do_train", DEV: "do_eval", TEST: "do_predict"}


def check_flags(settings: ClassificationSettings) -> None:
    """Checks the flags that all classification tasks share.

    Raises:
      FlagError: there is nothing to do, or there are no training steps.
      UserError: --data_dir is not a folder.
    """
    if not (settings.export_dir or any(getattr(settings, flag) for flag in _DO.values())):
        raise FlagError("nothing to do: pass --do_train, --do_eval, --do_predict or --export_dir")
    if settings.train_steps < 1:
        raise FlagError(f"--train_steps must be positive, not {settings.train_steps}")
    if not os.path.isdir(settings.data_dir):
        raise UserError(f"--data_dir {settings.data_dir} is not a folder")


def splits_of(settings: ClassificationSettings) -> list[str]:
    """Returns the splits that the flags ask for, see `Task.requested_splits`."""
    return [split for split, flag in _DO.items() if getattr(settings, flag)]


class LabelTask(TextTask):
    """A task whose model predicts labels.

    Attributes:
      input_flags: the flags that name the files or folders of the splits.
      labels: labels in the order of their ids; `[None]` for regression.
      dropout: dropout rate of the head in training.
      metrics: names of scores; the first selects the best checkpoint.
    """

    input_flags: ClassVar[Mapping[str, str]]
    metrics: Sequence[str] = ("eval_accuracy",)

    def __init__(self, settings: RunSettings, labels: Sequence[str | None], dropout: float):
        flags = self.input_flags
        self._splits = [split for split, do in _DO.items() if is_wanted(settings, do, flags[split])]
        super().__init__(settings)
        self.labels = labels
        self.dropout = 0.0 if settings.deterministic_run else dropout

    @classmethod
    def inputs(cls, settings: RunSettings) -> Sequence[str]:
        flags = [flag for split, flag in cls.input_flags.items() if getattr(settings, _DO[split])]
        return (*super().inputs(settings), *dict.fromkeys(flags))

    def requested_splits(self) -> Sequence[str]:
        return self._splits

    def contents(self, split: str) -> dict[str, Any]:
        return {**super().contents(split), "labels": self.labels}

    def describe(self) -> Iterator[tuple[str, object]]:
        yield from super().describe()
        numbers = "none: the task predicts a number"
        yield "labels", numbers if self.labels == [None] else ", ".join(map(str, self.labels))

    def has_dropout(self) -> bool:
        return bool(self.dropout) or super().has_dropout()

    def assets(self) -> Assets:
        description, files = super().assets()
        return Assets({**description, "labels": list(self.labels)}, files)

    def score_key(self, data: Data) -> str:
        return self.metrics[0]


class ClassificationTask(LabelTask):
    """A classification or regression task.

    Attributes:
      sequences: number of sequences of an example, as a shape; empty for a single sequence.
      input_name: name of a split's input in records of its content.
      limits: for regression, the range to which written predictions are clipped.
    """

    input_flags = dict.fromkeys(_DO, "data_dir")
    required = ("data_dir", "task_name", CONFIG_FLAGS, tuple(TOKENIZERS), "output_dir")
    settings: ClassificationSettings
    label_outputs = ("test_results.tsv", "submit_results.tsv")
    sequences: ClassVar[Sequence[int]] = ()
    input_name: ClassVar[str] = "{}_file"
    limits: tuple[float, float] | None = None
    needs_all_states = False

    def __init__(self, settings: ClassificationSettings, processor: Processor, dropout: float):
        super().__init__(settings, processor.get_labels(), dropout)
        self.processor = processor

    def split(self, name: str) -> LabelledFeatures:
        raise NotImplementedError

    def contents(self, split: str) -> dict[str, Any]:
        input_sha256 = sha256_of_inputs(self.processor.files_of(self.settings.data_dir, split))
        return {
            **super().contents(split),
            "task_name": self.settings.task_name.lower(),
            self.input_name.format(split): f"sha256:{input_sha256[:16]}",
        }

    def steps(self, num_examples: int) -> tuple[int, int]:
        settings = self.settings
        num_steps, num_warmup_steps = settings.train_steps, settings.warmup_step
        # --num_train_epochs sets the steps unless they are given; the warm-up works the same way.
        if settings.num_train_epochs and "train_steps" not in settings.given:
            num_steps = steps_of_epochs(settings, num_examples, settings.data_dir)
        if settings.warmup_proportion and not (
            num_warmup_steps and "warmup_step" in settings.given
        ):
            num_warmup_steps = int(num_steps * settings.warmup_proportion)
        return num_steps, num_warmup_steps

    def assets(self) -> Assets:
        description, files = super().assets()
        return Assets({**description, "task_name": self.settings.task_name.lower()}, files)

    def feature_shape(self) -> list[int]:
        """Returns the shape of an example's sequences; see `feature_spec`."""
        return [*self.sequences, self.settings.max_seq_length]

    def model_inputs(self) -> Mapping[str, Any]:
        is_regression = self.labels == [None]
        spec = feature_spec(self.feature_shape(), is_regression, label_shape(self.processor))
        return {name: spec[name] for name in spec if name != "is_real_example"}

    def score(self, data: Data, outputs: Sequence[Output]) -> CheckpointScores:
        outputs = self.real_outputs(data, outputs)
        names = "label_ids", "logits", "predictions"
        scores = compute_metrics(self.metrics, *(np.array([o[n] for o in outputs]) for n in names))

        def write_outputs() -> None:
            texts = [self.processor.display_parts(example) for example in data.source]
            view = labels_view(self.settings.task_name, texts, outputs, self.labels, scores)
            write_samples(self.settings.output_dir, view)

        return CheckpointScores(scores, write_outputs)

    def write_labels(self, data: Data, outputs: Sequence[Output], names: Sequence[str]) -> dict:
        """Writes a file of probabilities, or numbers in regression, and one for a submission.

        The latter, in GLUE's format, has ids and predicted labels; several labels are a JSON list.
        """
        outputs = self.real_outputs(data, outputs)
        with open(names[0], "w", encoding="utf-8") as file:
            for output in outputs:
                file.write("\t".join(map(str, output["probabilities"])) + "\n")
        with open(names[1], "w", encoding="utf-8") as file:
            file.write("index\tprediction\n")
            for example, output in zip(data.source, outputs, strict=True):
                answer = self._answer(output["predictions"])
                file.write(f"{self.processor.id_of(example)}\t{answer}\n")
        return {"num_examples": len(outputs)}

    def _answer(self, prediction: np.ndarray) -> str:
        names = [label for label in self.labels if label is not None]
        if np.ndim(prediction):
            return json.dumps(chosen(names, prediction), ensure_ascii=False)
        if names:
            return names[int(prediction)]
        low, high = self.limits or (prediction, prediction)
        return str(min(max(prediction, low), high))

    def real_outputs(self, data: Data, outputs: Sequence[Output]) -> list[Output]:
        """Returns the outputs of real examples, without those that only fill a batch.

        Raises:
          UserError: the features belong to other examples.
        """
        real = [output for output in outputs if output["is_real_example"]]
        if len(data.source) != len(real):
            raise UserError(
                f"{data.files[0]} has {len(real)} features, but the data set in "
                f"{self.settings.data_dir} has {len(data.source)} examples; remove the feature file"
            )
        return real
