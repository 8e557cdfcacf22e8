"""A classification as a task: what all of them have in common, and test predictions as files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from albert.core.errors import FlagError, UserError
from albert.data.batches import Data
from albert.data.feature_file import sha256_of_inputs
from albert.report.page import write_page
from albert.settings.run_settings import RunSettings
from albert.tasks.classification.examples import Processor
from albert.tasks.classification.features import LabelledFeatures, feature_spec
from albert.tasks.classification.metrics import compute_metrics
from albert.tasks.classification.settings import ClassificationSettings
from albert.tasks.classification.view import labels_view
from albert.training.assets import Assets
from albert.training.encoder_task import CONFIG_FLAGS, TOKENIZER_FLAGS, TextTask
from albert.training.evaluation import CheckpointScores
from albert.training.prediction import Output
from albert.training.schedule import steps_of_epochs
from albert.training.task import DEV, TEST, TRAIN

_DO = {TRAIN: "do_train", DEV: "do_eval", TEST: "do_predict"}


def check_flags(settings: ClassificationSettings) -> None:
    """Checks the flags of any classification.

    Raises:
      FlagError: nothing to do, or no step to train.
      UserError: --data_dir is no folder.
    """
    if not (settings.export_dir or any(getattr(settings, flag) for flag in _DO.values())):
        raise FlagError("nothing to do: give --do_train, --do_eval, --do_predict or --export_dir")
    if settings.train_steps < 1:
        raise FlagError(f"--train_step must be positive, not {settings.train_steps}")
    if not os.path.isdir(settings.data_dir):
        raise UserError(f"--data_dir {settings.data_dir} is no folder")


class ClassificationTask(TextTask):
    """A classification, or a regression, under the flags.

    Attributes:
      processor: reads the files.
      labels: in the order of their ids; only None for regression.
      dropout: of the head, in training.
      sequences: how many sequences an example has; none if it is one.
      input_name: what the input of a part is called where its content is recorded.
      metrics: names of scores; the first tells which checkpoint is best.
      limits: what lies outside of them in regression is moved to them where it is written.
    """

    required = ("data_dir", "task_name", CONFIG_FLAGS, TOKENIZER_FLAGS, "output_dir")
    settings: ClassificationSettings
    label_outputs = ("test_results.tsv", "submit_results.tsv")
    sequences: ClassVar[Sequence[int]] = ()
    input_name: ClassVar[str] = "{}_file"
    metrics: Sequence[str] = ("eval_accuracy",)
    limits: tuple[float, float] | None = None
    needs_all_states = False

    def __init__(self, settings: ClassificationSettings, processor: Processor, dropout: float):
        super().__init__(settings)
        self.processor = processor
        self.labels = processor.get_labels()
        self.dropout = 0.0 if settings.deterministic_run else dropout

    @classmethod
    def inputs(cls, settings: RunSettings) -> Sequence[str]:
        return (*super().inputs(settings), "data_dir")

    def split(self, name: str) -> LabelledFeatures:
        raise NotImplementedError

    def requested_splits(self) -> Sequence[str]:
        return [part for part, flag in _DO.items() if getattr(self.settings, flag)]

    def contents(self, part: str) -> dict[str, Any]:
        input_sha256 = sha256_of_inputs(self.processor.files_of(self.settings.data_dir, part))
        return {
            **super().contents(part),
            "task_name": self.settings.task_name.lower(),
            "labels": self.labels,
            self.input_name.format(part): f"sha256:{input_sha256[:16]}",
        }

    def describe(self) -> Iterator[tuple[str, object]]:
        yield from super().describe()
        numbers = "none: a number is predicted"
        yield "labels", numbers if self.labels == [None] else ", ".join(map(str, self.labels))

    def steps(self, num_examples: int) -> tuple[int, int]:
        settings = self.settings
        num_steps, num_warmup_steps = settings.train_steps, settings.warmup_step
        # What --num_train_epochs come to where they alone are given, and so on.
        if settings.num_train_epochs and "train_steps" not in settings.given:
            num_steps = steps_of_epochs(settings, num_examples, settings.data_dir)
        if settings.warmup_proportion and not (
            num_warmup_steps and "warmup_step" in settings.given
        ):
            num_warmup_steps = int(num_steps * settings.warmup_proportion)
        return num_steps, num_warmup_steps

    def has_dropout(self) -> bool:
        return bool(self.dropout) or super().has_dropout()

    def assets(self) -> Assets:
        description, files = super().assets()
        values = {"task_name": self.settings.task_name.lower(), "labels": list(self.labels)}
        return Assets({**description, **values}, files)

    def feature_shape(self) -> list[int]:
        """Returns the shape of an example's sequences, see `feature_spec`."""
        return [*self.sequences, self.settings.max_seq_length]

    def model_inputs(self) -> Mapping[str, Any]:
        spec = feature_spec(self.feature_shape(), self.labels == [None])
        return {name: spec[name] for name in spec if name != "is_real_example"}

    def score_key(self, data: Data) -> str:
        return self.metrics[0]

    def score(self, data: Data, outputs: list[Output]) -> CheckpointScores:
        outputs = self._of_examples(data, outputs)
        labels, logits = (np.array([o[key] for o in outputs]) for key in ("label_ids", "logits"))
        scores = compute_metrics(self.metrics, labels, logits)

        def write_outputs() -> None:
            texts = [self.processor.display_parts(example) for example in data.source]
            view = labels_view(self.settings.task_name, texts, outputs, self.labels, scores)
            write_page(self.page(), view)

        return CheckpointScores(scores, write_outputs)

    def write_labels(self, data: Data, outputs: list[Output], names: Sequence[str]) -> dict:
        outputs = self._of_examples(data, outputs)
        ids = [self.processor.id_of(example) for example in data.source]
        write_predictions(names[0], names[1], ids, outputs, self.labels, self.limits)
        return {"num_examples": len(ids)}

    def _of_examples(self, data: Data, outputs: list[Output]) -> list[Output]:
        """Returns the outputs of the examples, without those of what fills a batch up.

        Raises:
          UserError: the features are of other examples.
        """
        real = [output for output in outputs if output["is_real_example"]]
        if len(data.source) != len(real):
            raise UserError(
                f"{data.files[0]} has {len(real)} features, the data set in "
                f"{self.settings.data_dir} {len(data.source)} examples; remove the former"
            )
        return real


def write_predictions(
    results_file: str,
    submission_file: str,
    ids: Sequence[str],
    outputs: Sequence[dict[str, np.ndarray]],
    labels: Sequence[str | None],
    limits: tuple[float, float] | None = None,
) -> None:
    """Writes what the model gives for the examples of a test set.

    Args:
      results_file: the probability of every label, a line an example; in regression the number.
      submission_file: id and predicted label, below a header, as GLUE takes them.
      ids: of the examples of the test set.
      outputs: "probabilities" [C] and "predictions" of every example.
      labels: in the order of their ids; only None for regression.
      limits: what lies outside of them in regression is moved to them in the submission.
    """
    with open(results_file, "w", encoding="utf-8") as file:
        file.writelines("\t".join(map(str, output["probabilities"])) + "\n" for output in outputs)
    with open(submission_file, "w", encoding="utf-8") as file:
        file.write("index\tprediction\n")
        for name, output in zip(ids, outputs, strict=True):
            file.write(f"{name}\t{_answer(output['predictions'], labels, limits)}\n")


def _answer(
    prediction: np.ndarray, labels: Sequence[str | None], limits: tuple[float, float] | None
) -> str:
    if names := [label for label in labels if label is not None]:
        return names[int(prediction)]
    low, high = limits or (prediction, prediction)
    return str(min(max(prediction, low), high))
