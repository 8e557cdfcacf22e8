r"""Fine-tunes ALBERT on SQuAD 1.1, answers a file of questions, and scores the answers.

  albert squad --albert_config_file=albert_base_v2/albert_config.json \
    --spm_model_file=albert_base_v2/30k-clean.model --init_checkpoint=albert_base_v2 \
    --train_file=data/squad/train-v1.1.json --predict_file=data/squad/dev-v1.1.json \
    --output_dir=out

"albert squad 2.0" does the same on SQuAD 2.0, where a question may have no answer.
Run the same command again to resume a run that was stopped. A finished run ends at once.
Without --train_file, it scores the checkpoints in --output_dir, or --init_checkpoint if there are
none.
"""

from __future__ import annotations

from albert.cli.training import TaskCommand, run_task

_V2 = r"""Fine-tunes ALBERT on SQuAD 2.0, where a question may have no answer, and scores answers.

  albert squad 2.0 --albert_config_file=albert_base_v2/albert_config.json \
    --spm_model_file=albert_base_v2/30k-clean.model --init_checkpoint=albert_base_v2 \
    --train_file=data/squad/train-v2.0.json --predict_file=data/squad/dev-v2.0.json \
    --output_dir=out

Run the same command again to resume a run that was stopped. A finished run ends at once.
Without --train_file, it scores the checkpoints in --output_dir, or --init_checkpoint if there are
none.
"""
_SUMMARY = "answer questions about texts: SQuAD 1.1, SQuAD 2.0 or your own data"
COMMAND = TaskCommand.of("squad", _SUMMARY, __doc__, _V2)
define, parse, main = COMMAND.define, COMMAND.parse, run_task
RESUMES = True
WORDS = tuple(COMMAND.versions)
