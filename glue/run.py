"""The steps of a classification run under the flags."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from glue.examples import DEV, TEST, TRAIN, DataProcessor
from glue.feature_files import FeatureFile, FeatureFiles
from glue.flags import (
    CUSTOM,
    feature_path,
    kept_checkpoints,
    make_processor,
    num_train_steps,
    num_warmup_steps,
)
from glue.input_pipeline import file_based_input_fn_builder
from glue.metrics import scores_of
from glue.model import model_fn_builder
from glue.predictions import write_predictions
from model_flags import load_config, load_tokenizer, model_fn_options
from modeling import AlbertConfig
from runtime import device, distributed
from runtime.checkpoints import keep_last
from runtime.derived import DerivedFile
from runtime.errors import UserError
from runtime.evaluation import Scored
from runtime.flags import FLAGS
from runtime.prediction import Output
from runtime.run import Run, checkpoint_to_use, content_of, scoring_settings, training_settings
from runtime.run_record import recorded_settings


class Part(NamedTuple):
    """A part of the data set that is ready to be used: its own file and that of its features."""

    input_file: str
    features: FeatureFile


class GlueRun:
    """Training, evaluation, prediction and export into one output folder.

    What is to be used is prepared first: worker processes are forked before TensorFlow and MPI
    have threads, and faults of the input show before any training. After that all workers are to
    be connected and to do the same.

    Attributes:
      facts: of what has been prepared, in which all workers must agree.
    """

    def __init__(self):
        """Checks the flags against the model and its tokenizer, and the folder.

        Raises:
          UserError: something does not fit.
        """
        self.facts = {}
        self._config = load_config()
        self._processor = load_processor()
        tokenizer = load_tokenizer(self._config)
        self._labels = self._processor.get_labels()
        self._run = Run(functools.partial(make_model_fn, self._config, len(self._labels)))
        self._files = FeatureFiles(
            self._processor, tokenizer, FLAGS.max_seq_length, FLAGS.preprocess_workers
        )

    def prepare_training(self) -> Part:
        """Checks that the folder is free or holds this run, and makes the training features.

        Raises:
          FlagError: the folder holds a run with other flags.
          UserError: the input is no good.
        """
        settings = glue_training_settings(self._config, self._processor)
        self._run.check(settings)
        self.facts |= settings
        return self._part(TRAIN)

    def prepare_evaluation(self) -> Part:
        """Makes the features of the development set.

        Raises:
          UserError: the input is no good.
        """
        return self._part(DEV)

    def prepare_prediction(self) -> Part:
        """Makes the features of the test set.

        Raises:
          UserError: the input is no good, or a file of results is not ours to replace.
        """
        if distributed.is_chief() and (results := _results({})).is_foreign():
            raise UserError(
                f"{results.paths[0]} exists and was not written by this program; give another "
                "--output_dir or remove it"
            )
        return self._part(TEST)

    def _part(self, part: str) -> Part:
        input_file = self._processor.path(FLAGS.data_dir, part)
        self.facts |= {
            f"{part} file": content_of(input_file),
            "predict_batch_size": FLAGS.predict_batch_size,
            **_model_settings(self._config, self._processor),
        }
        return Part(input_file, self._files.made(part, input_file, feature_path(part)))

    def train(self, part: Part) -> None:
        """Trains up to the last step, from where an earlier run stopped."""
        num_steps = num_train_steps(part.features.num_examples, part.input_file)
        self._run.train(
            glue_training_settings(self._config, self._processor),
            lambda start_batch: self._input_fn(
                part.features, FLAGS.train_batch_size, is_training=True, start_batch=start_batch
            ),
            num_steps,
            num_warmup_steps(num_steps),
            kept_checkpoints(),
        )

    def evaluate(self, part: Part) -> None:
        """Scores every checkpoint that has no scores yet; after a training the last few stay."""
        self._run.score(
            self._input_fn(part.features, FLAGS.predict_batch_size, is_training=False),
            part.features.num_examples,
            self._score,
            self._processor.metrics[0],
            scoring_settings(
                **_model_settings(self._config, self._processor),
                dev_file=content_of(part.input_file),
            ),
        )
        if FLAGS.do_train and distributed.is_chief():
            keep_last(FLAGS.output_dir, FLAGS.keep_checkpoint_max)

    def _score(self, outputs: list[Output]) -> Scored:
        outputs = [output for output in outputs if output["is_real_example"]]
        labels, logits = (np.array([o[key] for o in outputs]) for key in ("label_ids", "logits"))
        return Scored(scores_of(self._processor.metrics, labels, logits), lambda: None)

    def predict(self, part: Part) -> None:
        """Labels the test set with the best checkpoint, unless that is done already.

        Raises:
          UserError: there is no checkpoint, or the features are not those of the test set.
        """
        predictor = self._run.predictor(
            self._input_fn(part.features, FLAGS.predict_batch_size, is_training=False),
            part.features.num_examples,
        )
        if not distributed.is_chief():
            predictor.follow()
            return
        checkpoint = checkpoint_to_use()
        results = _results(
            {
                "checkpoint": content_of(checkpoint + ".index"),
                **scoring_settings(
                    **_model_settings(self._config, self._processor),
                    test_file=content_of(part.input_file),
                ),
            }
        )
        if results.reusable() is None:
            self._write(results, part, predictor.outputs(checkpoint))
        predictor.finish()
        tf.logging.info("Predictions of %s in %s", checkpoint, " and ".join(results.paths))
        if self._processor.submission:
            tf.logging.info("In a submission to GLUE the second is %s", self._processor.submission)

    def _write(self, results: DerivedFile, part: Part, outputs: list[Output]) -> None:
        outputs = [output for output in outputs if output["is_real_example"]]
        examples = self._processor.read_examples(part.input_file, TEST)
        if len(examples) != len(outputs):
            raise UserError(
                f"{part.features.path} has {len(outputs)} features, {part.input_file} "
                f"{len(examples)} examples; remove the former"
            )
        with results.lock(), results.building() as (names, facts):
            facts["num_examples"] = len(examples)
            write_predictions(*names, examples, outputs, self._labels, self._processor.limits)

    def export(self) -> None:
        """Writes the best checkpoint, or else the newest or the initial one, as a SavedModel."""
        self._run.export()

    def _input_fn(
        self, features: FeatureFile, batch_size: int, is_training: bool, start_batch: int = 0
    ) -> Callable:
        input_fn = file_based_input_fn_builder(
            features.path,
            FLAGS.max_seq_length,
            is_training,
            drop_remainder=is_training,
            task_name=FLAGS.task_name.lower(),
            use_tpu=False,
            bsz=batch_size,
            is_regression=self._processor.is_regression,
            seed=FLAGS.seed,
            start_batch=start_batch,
            # On the HPU no shape may depend on the data.
            pad_remainder=device.is_hpu(),
            trim_padding=not device.is_hpu(),
            rank=distributed.rank(),
            num_workers=distributed.size(),
        )
        return features.snapshot.checking(input_fn)


def load_processor() -> DataProcessor:
    """The processor of --task_name, with the labels that the model to be used was trained for.

    Raises:
      FlagError, UserError: as in `make_processor`.
      UserError: the model was trained for other labels.
    """
    processor = make_processor()
    if FLAGS.do_train:
        return processor
    folder = os.path.dirname(checkpoint_to_use()) if distributed.is_chief() else FLAGS.output_dir
    trained_for = (recorded_settings(folder) or {}).get("labels")
    if trained_for is None:
        return processor
    if FLAGS.task_name.lower() == CUSTOM and processor.is_regression == (trained_for == [None]):
        # The files to be labelled need no training file beside them.
        processor.labels = () if processor.is_regression else tuple(trained_for)
    if processor.get_labels() != trained_for:
        raise UserError(
            f"the model in {folder} was trained for {_listed(trained_for)}, --task_name="
            f"{FLAGS.task_name} has {_listed(processor.get_labels())}"
        )
    return processor


def _listed(labels: Sequence[str | None]) -> str:
    return "numbers" if labels == [None] else f"the labels {', '.join(labels)}"


def make_model_fn(
    config: AlbertConfig,
    num_labels: int,
    num_train_steps: int | None,
    num_warmup_steps: int | None,
) -> Callable:
    """The model under the flags."""
    threshold = FLAGS.threshold_to_export
    return model_fn_builder(
        albert_config=config,
        num_labels=num_labels,
        task_name=FLAGS.task_name.lower(),
        hub_module=None,
        optimizer=FLAGS.optimizer,
        dropout=0.0 if FLAGS.deterministic_run else 0.1,
        threshold=None if math.isnan(threshold) else threshold,
        **model_fn_options(num_train_steps, num_warmup_steps),
    )


def glue_training_settings(config: AlbertConfig, processor: DataProcessor) -> dict:
    """What the trained weights are a function of."""
    return training_settings(
        optimizer=FLAGS.optimizer,
        warmup_step=FLAGS.warmup_step,
        **_model_settings(config, processor),
        train_file=content_of(processor.path(FLAGS.data_dir, TRAIN)),
    )


def _model_settings(config: AlbertConfig, processor: DataProcessor) -> dict:
    """What a model's outputs are a function of besides its weights and the data."""
    return {
        "task_name": FLAGS.task_name.lower(),
        "labels": processor.get_labels(),
        "max_seq_length": FLAGS.max_seq_length,
        "do_lower_case": FLAGS.do_lower_case,
        "albert_config_file": config.to_dict(),
        "spm_model_file": content_of(FLAGS.spm_model_file),
    }


def _results(source: dict) -> DerivedFile:
    """The files of test predictions, made from a source."""
    first, second = (
        os.path.join(FLAGS.output_dir, name) for name in ("test_results.tsv", "submit_results.tsv")
    )
    return DerivedFile(first, source, [second])
