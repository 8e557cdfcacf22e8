r"""Fine-tunes ALBERT on a GLUE task or your own data, scores it, and labels the test set.

  albert classify --task_name=MRPC --data_dir=data/glue --do_train --do_eval --do_predict \
    --albert_config_file=albert_base_v2/albert_config.json \
    --spm_model_file=albert_base_v2/30k-clean.model --init_checkpoint=albert_base_v2 \
    --train_steps=800 --warmup_step=200 --learning_rate=2e-5 --max_seq_length=128 --output_dir=out

--task_name=all trains the eight tasks of run_glue.sh in sequence, each with the settings of its
file in configs/. --seeds=1,2,3 trains each task with each seed. A table shows the scores, or their
medians.

Run the same command again to resume a run that was stopped. A finished run ends at once.
"""

from __future__ import annotations

from typing import cast

from albert.cli.training import Job, TaskCommand, run_task
from albert.tasks.glue.settings import GlueSettings

COMMAND = TaskCommand.of("classify", "label texts: GLUE or your own data", __doc__)
define, parse = COMMAND.define, COMMAND.parse
RESUMES = True


def main(job: Job) -> None:
    """Runs one task, or several."""
    settings = cast(GlueSettings, job.settings)
    if not settings.is_benchmark():
        run_task(job)
        return
    from albert.tasks.glue.benchmark import run_benchmark

    run_benchmark(settings)
