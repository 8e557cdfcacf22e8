r"""Pretrains ALBERT on records of masked sentence pairs, and scores what it has learnt.

  python run_pretraining.py --albert_config_file=configs/albert_base_v2.json \
    --input_file='pretrain.tfrecord-*' --eval_file=held_out.tfrecord --do_train --do_eval \
    --train_batch_size=64 --num_train_steps=100000 --num_warmup_steps=3000 --output_dir=out

The same command resumes a run that was stopped, and ends at once if there is nothing left to do.
`model.ckpt-best` is what fine-tuning takes as --init_checkpoint.
"""

from __future__ import annotations

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.
from albert.cli import app
from albert.settings.run_flags import define_flags
from albert.tasks.pretraining.flags import define_pretraining_flags

define_flags(define_pretraining_flags)


def task() -> type:
    """Returns the task; `--help` is there before TensorFlow, which it imports."""
    from albert.tasks.pretraining.task import PretrainingTask

    return PretrainingTask


def main(argv: list[str]) -> None:
    """Runs the task under the flags."""
    from albert.training.run import run

    del argv
    run(task())


if __name__ == "__main__":
    app.run(main)
