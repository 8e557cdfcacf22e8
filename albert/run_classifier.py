r"""Fine-tunes ALBERT on a GLUE task or on one's own, scores it, and labels the test set.

  python run_classifier.py --task_name=MRPC --data_dir=data/glue --do_train --do_eval --do_predict \
    --albert_config_file=albert_base_v2/albert_config.json \
    --spm_model_file=albert_base_v2/30k-clean.model --init_checkpoint=albert_base_v2 \
    --train_step=800 --warmup_step=200 --learning_rate=2e-5 --max_seq_length=128 --output_dir=out

The same command resumes a run that was stopped, and ends at once if there is nothing left to do.
"""

from __future__ import annotations

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.
from albert.cli import app
from albert.settings.run_flags import define_flags
from albert.tasks.glue.flags import define_glue_flags

define_flags(define_glue_flags)


def task() -> type:
    """Returns the task; `--help` is there before TensorFlow, which it imports."""
    from albert.tasks.glue.task import GlueTask

    return GlueTask


def main(argv: list[str]) -> None:
    """Runs the task under the flags."""
    from albert.training.run import run

    del argv
    run(task())


if __name__ == "__main__":
    app.run(main)
