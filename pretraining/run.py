"""The steps of a pretraining run under the flags."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from model_flags import load_config, model_fn_options
from modeling import AlbertConfig
from pretraining.flags import check_pretraining_flags, record_options
from pretraining.input_pipeline import check_files, input_fn_builder, reading, record_files
from pretraining.model import model_fn_builder
from pretraining.scoring import KEY_SCORE, scores_of
from runtime import distributed
from runtime.data.records import RecordFile
from runtime.flags import FLAGS
from runtime.training.evaluation import Scored
from runtime.training.run import (
    Run,
    content_of,
    content_of_records,
    scoring_settings,
    training_settings,
)

_TRAINING_FLAGS = (
    "max_seq_length",
    "max_predictions_per_seq",
    "num_warmup_steps",
    "start_warmup_step",
    "poly_power",
    "optimizer",
    "init_from_group0",
    "masked_lm_budget",
    "ngram",
)
_SCORING_FLAGS = (
    "max_seq_length",
    "max_predictions_per_seq",
    "predict_batch_size",
    "max_eval_steps",
    "masked_lm_budget",
    "ngram",
    "seed",
)


class PretrainingRun:
    """Training and scores in one output folder.

    What is to be used is prepared first, so that faults of the input show before any training.
    After that all workers are to be connected and to do the same.
    """

    def __init__(self):
        """Checks the flags against the model, and the folder.

        Raises:
          UserError: something does not fit.
        """
        self._config = load_config()
        check_pretraining_flags()
        self._options = record_options(self._config)
        self._run = Run(lambda *steps: make_model_fn(self._config, *steps))

    @property
    def facts(self) -> dict:
        """Of what has been prepared, in which all workers must agree."""
        return self._run.facts

    def prepare_training(self) -> list[str]:
        """The files of --input_file; checks them, and that the folder is free or holds this run.

        Raises:
          FlagError: the folder holds a run with other flags.
          UserError: the input is no good.
        """
        files = training_files()
        check_files(files, self._options)
        self._run.check(pretraining_settings(self._config, files))
        return files

    def prepare_evaluation(self) -> list[str]:
        """The files of --eval_file, or else --input_file; checks them.

        Raises:
          UserError: the input is no good.
        """
        files = evaluation_files()
        if FLAGS.eval_file or not FLAGS.do_train:
            check_files(files, self._options)
        both = set(files) & set(training_files()) if FLAGS.eval_file and FLAGS.do_train else ()
        if both:
            tf.logging.warning("trained on and scored on: %s", ", ".join(sorted(both)))
        self._run.facts |= {
            **{name: getattr(FLAGS, name) for name in _SCORING_FLAGS},
            **_vocabulary(),
            "albert_config_file": self._config.to_dict(),
            "eval_file": list(map(content_of_records, files)),
        }
        return files

    def train(self, files: Sequence[str]) -> None:
        """Trains up to the last step, from where an earlier run stopped."""
        with reading(files):
            self._run.train(
                lambda start_batch: self._input_fn(
                    files, FLAGS.train_batch_size, FLAGS.seed, start_batch=start_batch
                ),
                num_train_steps(),
                num_warmup_steps(),
            )

    def evaluate(self, files: Sequence[str]) -> None:
        """Scores every checkpoint on the same examples; after a training the last few stay."""
        most = FLAGS.max_eval_steps * FLAGS.predict_batch_size
        with reading(files):
            self._run.score(
                self._input_fn(
                    files, FLAGS.predict_batch_size, None, max_batches=FLAGS.max_eval_steps
                ),
                min(len(RecordFile(files)), most),
                lambda outputs: Scored(scores_of(outputs), lambda: None),
                KEY_SCORE,
                scoring_settings(
                    **{name: getattr(FLAGS, name) for name in _SCORING_FLAGS},
                    **_vocabulary(),
                    albert_config_file=self._config.to_dict(),
                    eval_file=list(map(content_of_records, files)),
                ),
            )

    def _input_fn(
        self, files: Sequence[str], batch_size: int, shuffle_seed: int | None, **which: int
    ) -> Callable:
        return input_fn_builder(
            files,
            self._options,
            batch_size,
            shuffle_seed,
            rank=distributed.rank(),
            num_workers=distributed.size(),
            **which,
        )


def make_model_fn(
    config: AlbertConfig, num_train_steps: int | None, num_warmup_steps: int | None
) -> Callable:
    """The model under the flags."""
    return model_fn_builder(
        albert_config=config,
        optimizer=FLAGS.optimizer,
        poly_power=FLAGS.poly_power,
        start_warmup_step=FLAGS.start_warmup_step // distributed.size(),
        init_from_group0=FLAGS.init_from_group0,
        **model_fn_options(num_train_steps, num_warmup_steps),
    )


def training_files() -> list[str]:
    """The record files of --input_file."""
    return record_files(FLAGS.input_file, "input_file")


def evaluation_files() -> list[str]:
    """The record files of --eval_file, or else --input_file."""
    return record_files(FLAGS.eval_file, "eval_file") if FLAGS.eval_file else training_files()


def num_train_steps() -> int:
    """Steps of the whole training: each worker does its part of them, as in the Habana fork."""
    return max(FLAGS.train_steps // distributed.size(), 1)


def num_warmup_steps() -> int:
    """Those in which the learning rate rises, likewise."""
    return FLAGS.num_warmup_steps // distributed.size()


def pretraining_settings(config: AlbertConfig, files: Sequence[str]) -> dict:
    """What the trained weights are a function of."""
    return training_settings(
        **{name: getattr(FLAGS, name) for name in _TRAINING_FLAGS},
        **_vocabulary(),
        albert_config_file=config.to_dict(),
        input_file=list(map(content_of_records, files)),
    )


def _vocabulary() -> dict:
    """What draws masks while training, if it is used at all."""
    if not FLAGS.masked_lm_budget:
        return {}
    return {"vocabulary": content_of(FLAGS.spm_model_file or FLAGS.vocab_file)}
