r"""Pretrains ALBERT on records of masked sentence pairs, and scores the checkpoints.

  albert pretrain --albert_config_file=configs/albert_base_v2.json \
    --input_file='pretrain.tfrecord-*' --eval_file=held_out.tfrecord --do_train --do_eval \
    --train_batch_size=64 --train_steps=100000 --num_warmup_steps=3000 --output_dir=out

  albert pretrain --flagfile=configs/pretrain_bert_large.flags --output_dir=out \
    --input_file='{max_seq_length}/train-*' --eval_file='{max_seq_length}/held_out'

The second command has two phases: sequences of 128 tokens in out/phase_1, then of 512 in
out/phase_2.

Run the same command again to resume a run that was stopped. A finished run ends at once.
To fine-tune the result, pass `model.ckpt-best` as --init_checkpoint.
"""

from __future__ import annotations

from typing import cast

from albert.cli.training import Job, TaskCommand, run_task
from albert.tasks.pretraining.settings import PretrainingSettings

_SUMMARY = "predict masked words and the order of sentences"
COMMAND = TaskCommand.of("pretrain", _SUMMARY, __doc__)
define, parse = COMMAND.define, COMMAND.parse
RESUMES = True


def main(job: Job) -> None:
    """Runs one pretraining, or its phases."""
    settings = cast(PretrainingSettings, job.settings)
    if not settings.phases:
        run_task(job)
        return
    from albert.tasks.pretraining.task import run_phases

    run_phases(settings)
