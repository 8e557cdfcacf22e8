r"""Fine-tunes ALBERT on a GLUE task or your own data, scores it, and labels the test set.

  albert classify --task_name=MRPC --data_dir=data/glue --do_train --do_eval --do_predict \
    --albert_config_file=albert_base_v2/albert_config.json \
    --spm_model_file=albert_base_v2/30k-clean.model --init_checkpoint=albert_base_v2 \
    --train_step=800 --warmup_step=200 --learning_rate=2e-5 --max_seq_length=128 --output_dir=out

Run the same command again to resume a run that was stopped. A finished run ends at once.
"""

from __future__ import annotations

from albert.cli.main import EntryPoint
from albert.cli.training import TaskCommand, TaskProgram
from albert.tasks.glue.settings import GlueSettings

_TASK = TaskProgram(__doc__, GlueSettings, "albert.tasks.glue.task", "GlueTask")
COMMAND = TaskCommand({"": _TASK})
define, parse = COMMAND.define, COMMAND.parse
ENTRY_POINT = EntryPoint("albert.cli.training", resumes=True)
