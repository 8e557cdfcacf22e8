r"""Fine-tunes ALBERT on SQuAD 1.1, answers a file of questions, and scores the answers.

  python run_squad_v1.py --albert_config_file=albert_base_v2/albert_config.json \
    --spm_model_file=albert_base_v2/30k-clean.model --init_checkpoint=albert_base_v2 \
    --train_file=data/squad/train-v1.1.json --predict_file=data/squad/dev-v1.1.json \
    --output_dir=out

The same command resumes a run that was stopped, and ends at once if there is nothing left to do.
Without --train_file it scores the checkpoints of --output_dir, or else --init_checkpoint.
"""

from __future__ import annotations

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.
from albert.cli import app
from albert.settings.run_flags import define_flags
from albert.tasks.squad.flags import define_v1_flags

define_flags(define_v1_flags)


def task() -> type:
    """Returns the task; `--help` is there before TensorFlow, which it imports."""
    from albert.tasks.squad.v1 import SquadV1Task

    return SquadV1Task


def main(argv: list[str]) -> None:
    """Runs the task under the flags."""
    from albert.training.run import run

    del argv
    run(task())


if __name__ == "__main__":
    app.run(main)
