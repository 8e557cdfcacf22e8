r"""Fine-tunes ALBERT on RACE: which of four options answers a question about a passage.

  python run_race.py --data_dir=data --albert_config_file=albert_base_v2/albert_config.json \
    --spm_model_file=albert_base_v2/30k-clean.model --init_checkpoint=albert_base_v2 \
    --output_dir=out

The same command resumes a run that was stopped, and ends at once if there is nothing left to do.
"""

from __future__ import annotations

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.
from albert.cli import app
from albert.settings.run_flags import define_flags
from albert.tasks.race.flags import define_race_flags

define_flags(define_race_flags)


def task() -> type:
    """Returns the task; `--help` is there before TensorFlow, which it imports."""
    from albert.tasks.race.task import RaceTask

    return RaceTask


def main(argv: list[str]) -> None:
    """Runs the task under the flags."""
    from albert.training.run import run

    del argv
    run(task())


if __name__ == "__main__":
    app.run(main)
