"""Pretrains ALBERT on records of masked sentence pairs, and scores what it has learnt.

  python run_pretraining.py --albert_config_file=configs/albert_base.json \
    --input_file='pretrain.tfrecord-*' --eval_file=held_out.tfrecord --do_train --do_eval \
    --train_batch_size=64 --num_train_steps=100000 --num_warmup_steps=3000 --output_dir=out

The same command resumes a run that was stopped, and ends at once if there is nothing left to do.
`model.ckpt-best` is what fine-tuning takes as --init_checkpoint.
"""

from __future__ import annotations

import os

import runtime  # noqa: F401  First: it silences what TensorFlow prints when it is imported.
from model_flags import load_config
from modeling import AlbertConfig
from pretraining.flags import check_pretraining_flags, define_pretraining_flags, record_options
from pretraining.input_pipeline import (
    RecordOptions,
    check_files,
    input_fn_builder,
    reading,
    record_files,
)
from pretraining.model import model_fn_builder
from pretraining.scoring import KEY_SCORE, scores_of
from runtime import app, distributed
from runtime.checkpoints import keep_last
from runtime.evaluation import Scored
from runtime.flags import (
    FLAGS,
    check_run_flags,
    define_ignored_flags,
    define_run_flags,
    learning_rate,
    optimizer_options,
    require,
)
from runtime.prediction import Output
from runtime.records import RecordFile
from runtime.run import Run, connect, content_of, scoring_settings, training_settings

define_run_flags()
define_pretraining_flags()
define_ignored_flags()

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


def main(argv: list[str]) -> None:
    """The whole run: checks, training, scores."""
    del argv
    check_run_flags()
    require("albert_config_file", "input_file", "output_dir")
    config = load_config()
    check_pretraining_flags()
    options = record_options(config)
    train_files = record_files(FLAGS.input_file, "input_file") if FLAGS.do_train else []
    eval_files = files_to_score() if FLAGS.do_eval else []
    check_files([*train_files, *eval_files], options)
    run = Run(lambda *steps: make_model_fn(config, *steps))
    settings = training_settings(
        **{name: getattr(FLAGS, name) for name in _TRAINING_FLAGS},
        albert_config_file=config.to_dict(),
        input_file=[content(file) for file in train_files],
    )
    if FLAGS.do_train:
        run.check(settings)
    connect()
    if FLAGS.do_train:
        with reading(train_files):
            train(run, settings, train_files, options)
    if FLAGS.do_eval:
        with reading(eval_files):
            evaluate(run, config, eval_files, options)
    if distributed.is_chief():
        keep_last(FLAGS.output_dir, FLAGS.keep_checkpoint_max)


def files_to_score() -> list[str]:
    """The record files of --eval_file, or else --input_file."""
    if FLAGS.eval_file:
        return record_files(FLAGS.eval_file, "eval_file")
    return record_files(FLAGS.input_file, "input_file")


def make_model_fn(config: AlbertConfig, num_train_steps: int | None, num_warmup_steps: int | None):
    """The model under the flags."""
    return model_fn_builder(
        albert_config=config,
        init_checkpoint=FLAGS.init_checkpoint,
        learning_rate=learning_rate(),
        num_train_steps=num_train_steps,
        num_warmup_steps=num_warmup_steps,
        use_tpu=False,
        use_one_hot_embeddings=False,
        optimizer=FLAGS.optimizer,
        poly_power=FLAGS.poly_power,
        start_warmup_step=FLAGS.start_warmup_step,
        use_einsum=FLAGS.use_einsum,
        init_from_group0=FLAGS.init_from_group0,
        optimizer_options=optimizer_options(),
    )


def train(run: Run, settings: dict, files: list[str], options: RecordOptions) -> None:
    """Trains; of several workers each does its part of the steps, as in the Habana fork."""
    num_workers = distributed.size()
    run.train(
        settings,
        lambda start_batch: input_fn_builder(
            files,
            options,
            FLAGS.train_batch_size,
            FLAGS.seed,
            start_batch=start_batch,
            rank=distributed.rank(),
            num_workers=num_workers,
        ),
        max(FLAGS.train_steps // num_workers, 1),
        FLAGS.num_warmup_steps // num_workers,
    )


def evaluate(run: Run, config: AlbertConfig, files: list[str], options: RecordOptions) -> None:
    """Scores every checkpoint on the same examples, and keeps the best."""
    num_examples = min(len(RecordFile(files)), FLAGS.max_eval_steps * FLAGS.predict_batch_size)

    def score(outputs: list[Output]) -> Scored:
        return Scored(scores_of(outputs), lambda: None)

    run.score(
        input_fn_builder(
            files,
            options,
            FLAGS.predict_batch_size,
            shuffle_seed=None,
            max_batches=FLAGS.max_eval_steps,
            rank=distributed.rank(),
            num_workers=distributed.size(),
        ),
        num_examples,
        score,
        KEY_SCORE,
        scoring_settings(
            **{name: getattr(FLAGS, name) for name in _SCORING_FLAGS},
            albert_config_file=config.to_dict(),
            eval_file=[content(file) for file in files],
        ),
    )


def content(path: str) -> str:
    """A record file by its content: that of its header, if it has one, which is much shorter."""
    header = path + ".json"
    return content_of(header if os.path.exists(header) else path)


if __name__ == "__main__":
    app.run(main)
