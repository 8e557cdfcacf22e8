r"""Pretrains ALBERT on records of masked sentence pairs, and scores what it has learnt.

  python run_pretraining.py --albert_config_file=configs/albert_base_v2.json \
    --input_file='pretrain.tfrecord-*' --eval_file=held_out.tfrecord --do_train --do_eval \
    --train_batch_size=64 --num_train_steps=100000 --num_warmup_steps=3000 --output_dir=out

The same command resumes a run that was stopped, and ends at once if there is nothing left to do.
`model.ckpt-best` is what fine-tuning takes as --init_checkpoint.
"""

from __future__ import annotations

import runtime  # noqa: F401  First: it silences what TensorFlow prints when it is imported.
from pretraining.flags import define_pretraining_flags
from pretraining.run import PretrainingRun
from runtime import app
from runtime.flags import FLAGS, check_run_flags, define_ignored_flags, define_run_flags, require
from runtime.training.run import connect

define_run_flags()
define_pretraining_flags()
define_ignored_flags()


def main(argv: list[str]) -> None:
    """The whole run: checks, training, scores."""
    del argv
    check_run_flags()
    require("albert_config_file", "output_dir")
    run = PretrainingRun()
    training = run.prepare_training() if FLAGS.do_train else None
    evaluation = run.prepare_evaluation() if FLAGS.do_eval else None
    connect(run.facts)
    if training:
        run.train(training)
    if evaluation:
        run.evaluate(evaluation)


if __name__ == "__main__":
    app.run(main)
