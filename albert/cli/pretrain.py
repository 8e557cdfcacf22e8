r"""Pretrains ALBERT on records of masked sentence pairs, and scores the checkpoints.

  albert pretrain --albert_config_file=configs/albert_base_v2.json \
    --input_file='pretrain.tfrecord-*' --eval_file=held_out.tfrecord --do_train --do_eval \
    --train_batch_size=64 --num_train_steps=100000 --num_warmup_steps=3000 --output_dir=out

Run the same command again to resume a run that was stopped. A finished run ends at once.
To fine-tune the result, pass `model.ckpt-best` as --init_checkpoint.
"""

from __future__ import annotations

from albert.cli.main import EntryPoint
from albert.cli.training import TaskCommand

_SUMMARY = "predict masked words and the order of sentences"
COMMAND = TaskCommand.of("pretrain", _SUMMARY, __doc__)
define, parse = COMMAND.define, COMMAND.parse
ENTRY_POINT = EntryPoint("albert.cli.training", resumes=True)
