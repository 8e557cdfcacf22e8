"""The steps of a classification run under the flags."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from glue.custom import TsvProcessor
from glue.examples import DEV, TEST, TRAIN, DataProcessor
from glue.feature_files import FeatureFile, FeatureFiles
from glue.flags import (
    feature_path,
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
from runtime import distributed
from runtime.data.cached_file import CachedFile
from runtime.devices import device
from runtime.errors import UserError
from runtime.flags import FLAGS
from runtime.training.evaluation import Scored
from runtime.training.prediction import Output
from runtime.training.run import (
    Run,
    checkpoint_to_use,
    content_of,
    content_of_records,
    scoring_settings,
    training_settings,
)
from runtime.training.run_record import recorded_settings

# Files of test predictions; beside the first is their header.
_RESULTS = ("test_results.tsv", "submit_results.tsv")


class Prepared(NamedTuple):
    """A part of the data set that is ready to be used: its own file and that of its features."""

    input_file: str
    features: FeatureFile


class GlueRun:
    """Training, evaluation, prediction and export into one output folder.

    What is to be used is prepared first: worker processes are forked before TensorFlow and MPI
    have threads, and faults of the input show before any training. After that all workers are to
    be connected and to do the same.
    """

    def __init__(self):
        """Checks the flags against the model and its tokenizer, and the folder.

        Raises:
          UserError: something does not fit.
        """
        self._config = load_config()
        self._processor = load_processor()
        tokenizer = load_tokenizer(self._config)
        self._labels = self._processor.get_labels()
        make_fn = functools.partial(make_model_fn, self._config, len(self._labels))
        self._run = Run(make_fn, [*_RESULTS, f"{_RESULTS[0]}.json"])
        self._files = FeatureFiles(
            self._processor, tokenizer, FLAGS.max_seq_length, FLAGS.preprocess_workers
        )

    @property
    def facts(self) -> dict:
        """Of what has been prepared, in which all workers must agree."""
        return self._run.facts

    def prepare_training(self) -> Prepared:
        """Checks that the folder is free or holds this run, and makes the training features.

        Raises:
          FlagError: the folder holds a run with other flags.
          UserError: the input is no good.
        """
        self._run.check(glue_training_settings(self._config, self._processor))
        return self._prepared(TRAIN)

    def prepare_evaluation(self) -> Prepared:
        """Makes the features of the development set.

        Raises:
          UserError: the input is no good.
        """
        return self._prepared(DEV)

    def prepare_prediction(self) -> Prepared:
        """Makes the features of the test set.

        Raises:
          UserError: the input is no good, or a file of results is not ours to replace.
        """
        if distributed.is_chief():
            check_results()
        return self._prepared(TEST)

    def _prepared(self, part: str) -> Prepared:
        input_file = self._processor.path(FLAGS.data_dir, part)
        features = self._files.made(part, input_file, feature_path(part))
        self._run.facts |= {
            f"{part} features": content_of_records(features.path),
            "predict_batch_size": FLAGS.predict_batch_size,
            **_model_settings(self._config, self._processor),
        }
        return Prepared(input_file, features)

    def train(self, part: Prepared) -> None:
        """Trains up to the last step, from where an earlier run stopped."""
        num_steps = num_train_steps(part.features.num_examples, part.input_file)
        self._run.train(
            lambda start_batch: self._input_fn(
                part.features, FLAGS.train_batch_size, is_training=True, start_batch=start_batch
            ),
            num_steps,
            num_warmup_steps(num_steps),
        )

    def evaluate(self, part: Prepared) -> None:
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

    def _score(self, outputs: list[Output]) -> Scored:
        outputs = [output for output in outputs if output["is_real_example"]]
        labels, logits = (np.array([o[key] for o in outputs]) for key in ("label_ids", "logits"))
        return Scored(scores_of(self._processor.metrics, labels, logits), lambda: None)

    def predict(self, part: Prepared) -> None:
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

    def _write(self, results: CachedFile, part: Prepared, outputs: list[Output]) -> None:
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
    folder = _folder_of_model()
    trained_for = (recorded_settings(folder) or {}).get("labels")
    if trained_for is None:
        return processor
    is_same_kind = processor.is_regression == (trained_for == [None])
    if isinstance(processor, TsvProcessor) and is_same_kind:
        # The files to be labelled need no training file beside them.
        processor.labels = tuple(label for label in trained_for if label is not None)
    if not is_same_kind or processor.get_labels() != trained_for:
        raise UserError(
            f"the model in {folder} was trained for {_listed(trained_for)}, not for "
            f"--task_name={FLAGS.task_name}{' --tsv_regression' * FLAGS.tsv_regression}"
            + (f" with {_listed(processor.get_labels())}" if is_same_kind else "")
        )
    return processor


def _folder_of_model() -> str:
    try:
        return os.path.dirname(os.path.abspath(checkpoint_to_use()))
    except UserError:
        if distributed.is_chief():
            raise
        # On another host than rank 0's it need not be there.
        return FLAGS.output_dir


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


def check_results() -> None:
    """Raises a `UserError` if a file of results is not ours to replace."""
    if (results := _results({})).is_foreign():
        raise UserError(
            f"{results.paths[0]} exists and was not written by this program; give another "
            "--output_dir or remove it"
        )


def _results(source: dict) -> CachedFile:
    """The files of test predictions, made from a source."""
    first, second = (os.path.join(FLAGS.output_dir, name) for name in _RESULTS)
    return CachedFile(first, source, [second])
