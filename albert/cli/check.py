"""Checks a job before you start it: its files, flags, memory and duration.

  albert check COMMAND FLAGS-OF-THE-COMMAND [--bf16] [--estimate] [--json]
  albert check [--json]                                      only the machine

COMMAND is a command that trains, such as squad, squad 2.0 or race, or a program such as
run_squad_v1.py.
The check writes nothing, except that it downloads a model that --model names. It trains nothing
either, except for --estimate, which makes the features, trains a few batches, and estimates how
long the job takes. The exit code is 1 if the job would fail. Under mpirun, every rank checks its
own host, and the report lists what differs from rank 0.
--device_memory=32GB compares the memory of a training step with a card on another machine. `albert
race --help` explains the flags of the command race.
"""

from __future__ import annotations

import os
import sys

from albert.cli import command_line
from albert.cli.training import Job, job_of
from albert.core.errors import FlagError, see_help
from albert.preflight.settings import CheckSettings
from albert.settings.fields import DEVICE
from albert.tasks import TASKS, Entry, versions_of

WORDS = tuple(dict.fromkeys(entry.command for entry in TASKS))
_VERSIONS = {entry.version for entry in TASKS if entry.version}
_PROGRAMS = {f"{e.program}.py": (e.command, e.version) for e in TASKS if e.program}


SETTINGS = CheckSettings
# The job, whether the command line names its task, and the options of the check.
Request = tuple[Job, bool, CheckSettings]


def parse(argv: list[str]) -> Request:
    """Parses a command line; raises a `FlagError` if the task is unknown or a flag is invalid."""
    program, *rest = argv
    names_task = bool(rest) and not rest[0].startswith("-")
    word = rest.pop(0) if names_task else "squad"
    task = find_task(word, rest.pop(0) if rest and rest[0] in _VERSIONS else "")
    kinds = task.load("settings"), CheckSettings
    paths = command_line.parse([program, *rest], __doc__, *kinds, arguments=True)
    return job_of(task, paths), names_task, CheckSettings.from_flags()


def main(request: Request) -> None:
    """Prints each run's report of all ranks; exits with code 1 if one would fail, otherwise 0."""
    from albert.distributed import exchange
    from albert.preflight.checks import check

    job, names_task, options = request
    task, settings = job.with_model()
    # Flags of the device and --json only describe the machine and the report.
    flags = settings.flags()
    is_job = any(flags[name].theme != DEVICE for name in settings.given) or options.given - {"json"}
    task_class = task.load("task") if names_task or is_job else None
    results = [check(task_class, one, options, name) for name, one in settings.runs().items()]
    # When one rank exits with 1, the launcher ends all of them. Wait until the report is printed.
    exchange.broadcast_object(None)
    sys.exit(0 if all(results) else 1)


def find_task(word: str, version: str = "") -> Entry:
    """Returns the task of a command or reference program; raises a `FlagError` if unknown."""
    name = os.path.basename(word)
    program = _PROGRAMS.get(name.removesuffix(".py") + ".py")
    if program and version not in ("", program[1]):
        raise FlagError(f"{name} is not for version {version}; remove {version}")
    name, version = program or (name, version)
    versions = versions_of(name)
    if not versions or version not in ("", *versions):
        known = ", ".join((*WORDS, *_PROGRAMS))
        wrong = f"{word} {version}".rstrip()
        advice = see_help(word, WORDS)
        raise FlagError(f"{wrong} cannot be checked; use one of {known}{advice}")
    return versions.get(version) or next(iter(versions.values()))
