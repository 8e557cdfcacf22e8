"""The steps of a SQuAD run under the flags; what differs between 1.1 and 2.0 is handed in."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from model_flags import load_config, load_tokenizer, model_fn_options, steps_of_epochs
from modeling import AlbertConfig
from runtime import distributed
from runtime.devices import device
from runtime.flags import FLAGS
from runtime.training.evaluation import Scored
from runtime.training.run import (
    Run,
    content_of,
    content_of_records,
    scoring_settings,
    training_settings,
)
from squad.examples import SquadExample, load_squad, read_examples
from squad.feature_files import FeatureFile, FeatureMaker
from squad.flags import (
    check_squad_flags,
    feature_options,
    prediction_feature_paths,
    training_feature_path,
)
from squad.input_pipeline import input_fn_builder
from squad.left import PredictionFeature
from squad.model import v1_model_fn_builder
from squad.scoring import questions_of

# From the flags and the numbers of training and warmup steps (None in prediction) to a model_fn.
ModelFnMaker = Callable[[AlbertConfig, int | None, int | None], Callable]
# From articles, examples, their features and the model's outputs to scores and files.
Scorer = Callable[
    [list[dict], list[SquadExample], list[PredictionFeature], list[dict[str, np.ndarray]]], Scored
]


class PredictionData(NamedTuple):
    """What --predict_file holds and its features; workers that do not score have `file` only."""

    file: FeatureFile
    articles: list[dict] = []
    examples: list[SquadExample] = []
    features: list[PredictionFeature] = []


class SquadRun:
    """Training, prediction and export into one output folder.

    What is to be trained or predicted is prepared first: worker processes are forked before
    TensorFlow and MPI have threads, and faults of the input show before any training. After that
    all workers are to be connected and to do the same.
    """

    def __init__(self, make_model_fn: ModelFnMaker, is_v2: bool, outputs: Sequence[str]):
        """Checks the flags against the model and its tokenizer, and the folder.

        Args:
          make_model_fn: the model.
          is_v2: whether the model needs `p_mask`.
          outputs: files in the folder that the best checkpoint's answers are written to.

        Raises:
          UserError: something does not fit.
        """
        self._is_v2 = is_v2
        self._config = load_config()
        check_squad_flags()
        tokenizer = load_tokenizer(self._config)
        self._outputs = outputs
        names = list(map(os.path.basename, outputs))
        self._run = Run(functools.partial(make_model_fn, self._config), names)
        self._maker = FeatureMaker(tokenizer, feature_options(), FLAGS.preprocess_workers)

    @property
    def facts(self) -> dict:
        """Of what has been prepared, in which all workers must agree."""
        return self._run.facts

    def prepare_training(self) -> FeatureFile:
        """Checks that the folder is free or holds this run, and makes the training features.

        Raises:
          FlagError: the folder holds a run with other flags.
          UserError: the input is no good.
        """
        self._run.check(squad_training_settings(self._config))
        features = self._maker.training_features(FLAGS.train_file, training_feature_path())
        self._run.facts["training features"] = content_of_records(features.path)
        return features

    def prepare_prediction(self) -> PredictionData:
        """Reads --predict_file and makes its features, so that a fault shows before the training.

        Raises:
          UserError: the input is no good.
        """

        @functools.cache
        def articles() -> list[dict]:
            return load_squad(FLAGS.predict_file)

        @functools.cache
        def examples() -> list[SquadExample]:
            return read_examples(articles(), FLAGS.predict_file, is_training=False)[0]

        feature_file, left_file = prediction_feature_paths()
        file = self._maker.prediction_features(
            FLAGS.predict_file, examples, feature_file, left_file
        )
        self._run.facts |= {
            "prediction features": content_of_records(file.path),
            "predict_batch_size": FLAGS.predict_batch_size,
            **_feature_settings(self._config),
        }
        if not distributed.is_chief():
            return PredictionData(file)
        features = self._maker.left_features(file, examples, left_file)
        return PredictionData(file, articles(), examples(), features)

    def train(self, features: FeatureFile) -> None:
        """Trains on --train_file up to the last step, from where an earlier run stopped."""
        num_steps = num_train_steps(features.num_examples)
        self._run.train(
            lambda start_batch: self._input_fn(
                features, FLAGS.train_batch_size, is_training=True, start_batch=start_batch
            ),
            num_steps,
            num_warmup_steps(num_steps),
        )

    def predict(self, data: PredictionData, scorer: Scorer, key: str) -> None:
        """Answers --predict_file with every checkpoint that has no scores yet.

        Args:
          data: from `prepare_prediction`.
          scorer: from the model's outputs to scores.
          key: the score by which the best checkpoint is chosen.
        """
        if distributed.is_chief() and not any(
            question.get("answers") for question in questions_of(data.articles)
        ):
            tf.logging.warning("%s has no answers: there will be no scores", FLAGS.predict_file)
            key = "global_step"
        self._run.score(
            self._input_fn(data.file, FLAGS.predict_batch_size, is_training=False),
            data.file.num_features,
            lambda results: scorer(data.articles, data.examples, data.features, results),
            key,
            self._scoring_settings(),
            self._outputs,
        )

    def export(self) -> None:
        """Writes the best checkpoint, or else the newest or the initial one, as a SavedModel."""
        self._run.export()

    def _input_fn(
        self, file: FeatureFile, batch_size: int, is_training: bool, start_batch: int = 0
    ) -> Callable:
        input_fn = input_fn_builder(
            file.path,
            FLAGS.max_seq_length,
            is_training,
            drop_remainder=is_training,
            use_tpu=False,
            bsz=batch_size,
            is_v2=self._is_v2,
            seed=FLAGS.seed,
            start_batch=start_batch,
            # On the HPU no shape may depend on the data.
            pad_remainder=device.is_hpu(),
            trim_padding=trims_batches(),
            rank=distributed.rank(),
            num_workers=distributed.size(),
        )
        return file.snapshot.checking(input_fn)

    def _scoring_settings(self) -> dict:
        return scoring_settings(
            n_best_size=FLAGS.n_best_size,
            max_answer_length=FLAGS.max_answer_length,
            mask_padding_in_loss=FLAGS.mask_padding_in_loss,
            **_feature_settings(self._config),
            predict_file=content_of(FLAGS.predict_file),
        )


def make_v1_model_fn(
    config: AlbertConfig, num_train_steps: int | None, num_warmup_steps: int | None
) -> Callable:
    """The model of SQuAD 1.1 under the flags."""
    return v1_model_fn_builder(
        albert_config=config,
        hub_module=None,
        mask_padding_in_loss=FLAGS.mask_padding_in_loss,
        **model_fn_options(num_train_steps, num_warmup_steps),
    )


def squad_training_settings(config: AlbertConfig) -> dict:
    """What the trained weights are a function of."""
    return training_settings(
        mask_padding_in_loss=FLAGS.mask_padding_in_loss,
        trim_batches=FLAGS.trim_batches,
        **_feature_settings(config),
        train_file=content_of(FLAGS.train_file),
    )


def _feature_settings(config: AlbertConfig) -> dict:
    return {
        **feature_options()._asdict(),
        "albert_config_file": config.to_dict(),
        "spm_model_file": content_of(FLAGS.spm_model_file),
    }


def trims_batches() -> bool:
    """Whether batches are cut to their longest feature; on the HPU no shape depends on data."""
    return FLAGS.trim_batches and FLAGS.mask_padding_in_loss and not device.is_hpu()


def num_train_steps(num_examples: int) -> int:
    """Steps of the whole training.

    Raises:
      UserError: there is less than one.
    """
    if FLAGS.train_steps > 0:
        return FLAGS.train_steps
    return steps_of_epochs(num_examples, FLAGS.train_file)


def num_warmup_steps(num_steps: int) -> int:
    """Those of so many steps in which the learning rate rises."""
    return int(num_steps * FLAGS.warmup_proportion)
