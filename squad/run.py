"""The steps of a SQuAD run under the flags; what differs between 1.1 and 2.0 is handed in."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from modeling import AlbertConfig
from runtime import distributed
from runtime.checkpoints import BEST, resolve_checkpoint
from runtime.errors import FlagError, UserError
from runtime.evaluation import Evaluation, Scored
from runtime.export import export_saved_model
from runtime.files import make_writable_folder, sha256_of
from runtime.flags import FLAGS, global_batch_size, training_plan
from runtime.prediction import Predictor
from runtime.run_record import begin_run, check_run
from runtime.training import make_deterministic, make_estimator, steps_done, train
from squad.examples import SquadExample, load_squad, read_examples
from squad.feature_files import FeatureFile, FeatureMaker
from squad.flags import (
    check_squad_flags,
    feature_options,
    load_tokenizer,
    prediction_feature_paths,
    training_feature_path,
)
from squad.input_pipeline import input_fn_builder
from squad.left import PredictionFeature
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

    def __init__(self, make_model_fn: ModelFnMaker, is_v2: bool):
        """Checks the flags against the model and its tokenizer, and the folder.

        Args:
          make_model_fn: the model.
          is_v2: whether the model needs `p_mask`.

        Raises:
          UserError: something does not fit.
        """
        self._make_model_fn = make_model_fn
        self._is_v2 = is_v2
        self._config = _load_config()
        check_squad_flags(self._config)
        tokenizer = load_tokenizer(self._config)
        if FLAGS.init_checkpoint:
            resolve_checkpoint(FLAGS.init_checkpoint)
        if distributed.is_chief():
            make_writable_folder(FLAGS.output_dir, "--output_dir")
        self._maker = FeatureMaker(tokenizer, feature_options(), FLAGS.preprocess_workers)
        if FLAGS.deterministic_run:
            make_deterministic()

    def prepare_training(self) -> FeatureFile:
        """Checks that the folder is free or holds this run, and makes the training features.

        Raises:
          FlagError: the folder holds a run with other flags.
          UserError: the input is no good.
        """
        if FLAGS.init_checkpoint:
            best = os.path.realpath(os.path.join(FLAGS.output_dir, BEST))
            if os.path.realpath(resolve_checkpoint(FLAGS.init_checkpoint)) == best:
                raise FlagError(
                    f"--init_checkpoint {FLAGS.init_checkpoint} would be replaced by this run's "
                    "best checkpoint; give another --output_dir"
                )
        if distributed.is_chief() and not FLAGS.overwrite_output_dir:
            check_run(FLAGS.output_dir, self._training_settings())
        return self._maker.training_features(FLAGS.train_file, training_feature_path())

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
        if not distributed.is_chief():
            return PredictionData(file)
        features = self._maker.left_features(file, examples, left_file)
        return PredictionData(file, articles(), examples(), features)

    def train(self, features: FeatureFile) -> None:
        """Trains on --train_file up to the last step, from where an earlier run stopped."""
        plan = training_plan(_num_train_steps(features.num_examples))
        num_warmup_steps = int(plan.num_steps * FLAGS.warmup_proportion)
        done = distributed.share(self._begin() if distributed.is_chief() else None)
        if done >= plan.num_steps:
            tf.logging.info("Training is done already: step %d of %d", done, plan.num_steps)
            return
        tf.logging.info(
            "Training from step %d to %d, %d of them warmup, global batch size %d",
            done,
            plan.num_steps,
            num_warmup_steps,
            plan.global_batch_size,
        )
        start_batch = done * plan.runs_a_step * distributed.size()
        input_fn = self._input_fn(
            features.path, FLAGS.train_batch_size, is_training=True, start_batch=start_batch
        )
        train(self._estimator(plan.num_steps, num_warmup_steps), input_fn, plan)

    def _begin(self) -> int:
        """Records the run and returns the number of steps that are done."""
        begin_run(FLAGS.output_dir, self._training_settings(), FLAGS.overwrite_output_dir)
        return steps_done(FLAGS.output_dir)

    def predict(
        self, data: PredictionData, scorer: Scorer, key: str, outputs: Sequence[str]
    ) -> None:
        """Answers --predict_file with every checkpoint that has no scores yet.

        Args:
          data: from `prepare_prediction`.
          scorer: from the model's outputs to scores.
          key: the score by which the best checkpoint is chosen.
          outputs: files that the scorer writes for the best checkpoint.
        """
        predictor = Predictor(
            self._estimator(None, None),
            self._input_fn(data.file.path, FLAGS.predict_batch_size, is_training=False),
            FLAGS.predict_batch_size,
            data.file.num_features,
        )
        if not distributed.is_chief():
            predictor.follow()
            return
        if not any(question.get("answers") for question in questions_of(data.articles)):
            tf.logging.warning("%s has no answers: there will be no scores", FLAGS.predict_file)
            key = "global_step"

        def score(checkpoint: str) -> Scored:
            results = predictor.outputs(checkpoint)
            return scorer(data.articles, data.examples, data.features, results)

        evaluation = Evaluation(
            FLAGS.output_dir, key, self._scoring_settings(), outputs, FLAGS.init_checkpoint
        )
        best = evaluation.score_all(score)
        predictor.finish()
        _report(best, outputs)

    def export(self) -> str:
        """Writes the best checkpoint, or else the newest or the initial one, as a SavedModel."""
        make_writable_folder(FLAGS.export_dir, "--export_dir")
        best = os.path.join(FLAGS.output_dir, BEST)
        checkpoint = best if os.path.exists(best + ".index") else None
        checkpoint = checkpoint or tf.train.latest_checkpoint(FLAGS.output_dir)
        if not (checkpoint or FLAGS.init_checkpoint):
            raise UserError(f"{FLAGS.output_dir} has no checkpoint to export; train first")
        checkpoint = resolve_checkpoint(checkpoint or FLAGS.init_checkpoint)
        return export_saved_model(self._estimator(None, None), FLAGS.export_dir, checkpoint)

    def _estimator(
        self, num_train_steps: int | None, num_warmup_steps: int | None
    ) -> tf.estimator.Estimator:
        return make_estimator(
            self._make_model_fn(self._config, num_train_steps, num_warmup_steps),
            FLAGS.output_dir,
            FLAGS.seed,
            FLAGS.enable_scoped_allocator,
        )

    def _input_fn(
        self, path: str, batch_size: int, is_training: bool, start_batch: int = 0
    ) -> Callable:
        return input_fn_builder(
            path,
            FLAGS.max_seq_length,
            is_training,
            drop_remainder=is_training,
            use_tpu=False,
            bsz=batch_size,
            is_v2=self._is_v2,
            seed=FLAGS.seed,
            start_batch=start_batch,
            trim_padding=FLAGS.trim_batches and FLAGS.mask_padding_in_loss,
            rank=distributed.rank(),
            num_workers=distributed.size(),
        )

    def _training_settings(self) -> dict:
        """What the trained weights are a function of, by flag name."""
        names = (
            "train_batch_size",
            "gradient_accumulation_steps",
            "allreduce_dtype",
            "scale_learning_rate",
            "learning_rate",
            "num_train_epochs",
            "train_steps",
            "warmup_proportion",
            "seed",
            "deterministic_run",
            "mask_padding_in_loss",
            "trim_batches",
            "use_einsum",
        )
        return {
            **{name: getattr(FLAGS, name) for name in names},
            **feature_options()._asdict(),
            "albert_config_file": self._config.to_dict(),
            "number of workers": distributed.size(),
            "train_file": _content(FLAGS.train_file),
            "spm_model_file": _content(FLAGS.spm_model_file),
            "init_checkpoint": _checkpoint_content(),
        }

    def _scoring_settings(self) -> dict:
        """What scores are a function of besides the checkpoint's name."""
        run = os.path.join(FLAGS.output_dir, "run.json")
        return {
            **feature_options()._asdict(),
            "albert_config_file": self._config.to_dict(),
            "n_best_size": FLAGS.n_best_size,
            "max_answer_length": FLAGS.max_answer_length,
            "mask_padding_in_loss": FLAGS.mask_padding_in_loss,
            "predict_file": _content(FLAGS.predict_file),
            "spm_model_file": _content(FLAGS.spm_model_file),
            "init_checkpoint": _checkpoint_content(),
            "run": _content(run) if os.path.exists(run) else None,
        }


def _report(best: dict, outputs: Sequence[str]) -> None:
    """Logs the best checkpoint's scores and where everything is."""
    tf.logging.info("Results in %s", FLAGS.output_dir)
    scores = {name: f"{value:.2f}" for name, value in best.items() if isinstance(value, float)}
    files = [*map(os.path.basename, outputs), "eval_results.json", "eval_results.txt"]
    rows = {
        **scores,
        "checkpoint": f"{BEST} (step {best['global_step']})",
        "files": ", ".join(files),
    }
    for name, value in rows.items():
        tf.logging.info("  %-12s %s", name, value)


def _load_config() -> AlbertConfig:
    config = AlbertConfig.from_json_file(FLAGS.albert_config_file)
    if FLAGS.deterministic_run:
        config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    return config


def _num_train_steps(num_examples: int) -> int:
    """As in the reference the length follows the examples, not their features."""
    if FLAGS.train_steps > 0:
        return FLAGS.train_steps
    steps = int(num_examples / global_batch_size() * FLAGS.num_train_epochs)
    if not steps:
        raise UserError(
            f"{FLAGS.train_file}: {num_examples} examples are less than one step of "
            f"{global_batch_size()} in --num_train_epochs {FLAGS.num_train_epochs:g}; lower "
            "--train_batch_size"
        )
    return steps


def _content(path: str) -> str:
    """A file by its content, so that it may be moved."""
    try:
        return "sha256:" + sha256_of(path)[:16]
    except OSError as e:
        raise UserError(f"{path} cannot be read: {e.strerror}") from e


def _checkpoint_content() -> str | None:
    """The initial checkpoint by its index, which holds a checksum of every variable."""
    if not FLAGS.init_checkpoint:
        return None
    return _content(resolve_checkpoint(FLAGS.init_checkpoint) + ".index")
