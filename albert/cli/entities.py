r"""Trains a model to find named entities in texts, scores it, and finds those of other texts.

  albert entities --train_file=train.conll --predict_file=dev.conll --output_dir=out \
    --albert_config_file=albert_base_v2/albert_config.json \
    --spm_model_file=albert_base_v2/30k-clean.model --init_checkpoint=albert_base_v2

Run the same command again to resume a run that was stopped. A finished run ends at once.
"""

from albert.cli.training import TaskCommand, run_task

COMMAND = TaskCommand.of("entities", "find named entities in texts: your own data", __doc__)
define, parse, main = COMMAND.define, COMMAND.parse, run_task
RESUMES = True
