r"""Searches for the best learning rate, number of epochs, batch size and seed of a task.

  albert sweep TASK FLAGS-OF-THE-TASK --output_dir=SWEEP [--trials=20] [--learning_rates=1e-5,1e-4]

TASK is squad, squad 2.0, classify, race or entities. Each trial is a run of the task in a folder
below --output_dir. It trains with other values, which Optuna chooses, and is scored while it
trains. A flag of the task that you pass, such as --seed=7, is the same in all trials. Run the same
command again to resume a sweep that was stopped, with a larger --trials to extend it. `albert
classify --help` explains the flags of the task classify.
"""

from __future__ import annotations

import math

from albert.cli import command_line
from albert.cli.check import find_task, pop_task
from albert.cli.training import Job, job_of
from albert.core import signals
from albert.core.errors import FlagError, require, see_help
from albert.distributed import launcher
from albert.settings.run_settings import RunSettings
from albert.sweep.space import Space, SweepSettings, make_space
from albert.tasks import TASKS

RESUMES = True
# Only models that are used as they are have scores to search for.
WORDS = tuple(dict.fromkeys(entry.command for entry in TASKS if entry.model))

# Flags that concern a single run, with the reason why a sweep refuses them.
_REFUSED = {
    "overwrite_output_dir": "a sweep resumes; remove its folder to start again",
    "export_dir": "export the best trial afterwards: repeat its command with this flag",
    "use_horovod": "a trial is a single process",
    "download_only": "use it with the task's own command",
}


# The task as words, its job with the flags of all trials, the options, and the search space.
Request = tuple[list[str], Job, SweepSettings, Space]


def parse(argv: list[str]) -> Request:
    """Parses a command line; raises a `FlagError` for a missing task, or a wrong flag or range."""
    program, *rest = argv
    named, version = pop_task(rest)
    word = WORDS[0] if named is None else named
    if word not in WORDS:
        raise FlagError(f"{word!r} is not one of {', '.join(WORDS)}{see_help(word, WORDS)}")
    task = find_task(word, version)
    command_line.parse([program, *rest], __doc__, task.load("settings"), SweepSettings)
    if named is None:
        raise FlagError(f"the task is missing; name it before the flags: {', '.join(WORDS)}")
    job, settings = job_of(task), SweepSettings.from_flags()
    words = [word, version] if version else [word]
    return words, job, settings, make_space(settings, job.settings)


def main(request: Request) -> None:
    """Runs the missing trials and prints all; raises a `UserError` if all failed, or `Stopped`."""
    from albert.sweep.search import Sweep

    words, job, options, space = request
    _check(job.settings)
    job = job.with_model()
    require("optuna", "optuna")
    sweep = Sweep(job.entry.load("task"), words, job.settings, options, space)
    sweep.take_folder()
    # `run_trial` passes signals on.
    signals.defer(math.inf)
    try:
        sweep.run()
    finally:
        signals.raise_stopped()
    sweep.report()


def _check(settings: RunSettings) -> None:
    if launcher.label():
        raise FlagError("start the sweep without mpirun: a trial is a single process")
    for name, reason in _REFUSED.items():
        if getattr(settings, name):
            raise FlagError(f"--{name} does not work in a sweep: {reason}")
    if "output_dir" not in settings.given:
        raise FlagError("--output_dir is required")
