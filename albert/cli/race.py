r"""Fine-tunes ALBERT on RACE, whose questions about a passage have four options each.

  albert race --data_dir=data --albert_config_file=albert_base_v2/albert_config.json \
    --spm_model_file=albert_base_v2/30k-clean.model --init_checkpoint=albert_base_v2 \
    --output_dir=out

Run the same command again to resume a run that was stopped. A finished run ends at once.
"""

from __future__ import annotations

from albert.cli.training import TaskCommand, run_task

COMMAND = TaskCommand.of("race", "choose one of four answers to a question: RACE", __doc__)
define, parse, main = COMMAND.define, COMMAND.parse, run_task
RESUMES = True
