"""Checks a job before you book a card: its files, flags, memory and duration.

  albert check COMMAND FLAGS-OF-THE-COMMAND [--bf16] [--estimate] [--json]
  albert check [--json]                                      only the machine

COMMAND is a command that trains, such as squad, squad 2.0 or race, or a program such as
run_squad_v1.py.
The check writes nothing. It trains nothing either, except a few batches for --estimate, which
estimates how long the job takes. The exit code is 1 if the job would fail. Under mpirun, every rank
checks its own host, and the report lists what differs from rank 0. --device_memory=32GB compares
the memory of a training step with a card on another machine. `albert race --help` explains the
flags of the command race.
"""

from __future__ import annotations

import importlib
import os
from typing import NamedTuple

from albert.cli import command_line
from albert.cli.main import EntryPoint, module_of
from albert.cli.training import Job, TaskProgram
from albert.core.errors import FlagError, see_help
from albert.preflight import GBIT
from albert.settings.fields import LARGEST_BATCH, Settings, setting
from albert.tasks import COMMANDS, TASKS

ENTRY_POINT = EntryPoint("albert.commands.check")
WORDS = COMMANDS
_PROGRAMS = {f"{entry.program}.py": (entry.command, entry.version) for entry in TASKS}


def _size(text: str) -> int:
    """Parses a size of memory and returns it in bytes; raises a `ValueError` if it is invalid."""
    # The help does not need this import, which takes time.
    from albert.preflight.available_memory import parse_size

    return parse_size(text)


class CheckSettings(Settings):
    """Options of the report."""

    bf16: bool = setting(
        False,
        "List the operations that --precision or TF_BF16_CONVERSION converts to bfloat16 or "
        "float16, and the rule for each. If neither is set, the list in bf16_config/ is used.",
    )
    device_memory: int | None = setting(
        None,
        "Memory of each card of another machine, such as 32GB, 94GiB or 24000MB, to compare with "
        "the memory of a training step. Default: the memory of this machine's device.",
        parser=_size,
    )
    estimate: bool = setting(
        False,
        "Train and predict a few batches, 3 of each or 5 minutes, and estimate how long the whole "
        "job takes. Files go to a temporary folder, which is removed afterwards.",
    )
    workers: int | None = setting(
        None,
        "With --estimate: number of workers to estimate the duration for, with a model of the "
        "network.",
        lower=1,
        upper=LARGEST_BATCH,
    )
    examples_per_second: float | None = setting(
        None,
        "With --estimate: training speed of a single one of these workers, in examples per "
        "second, as in the log of a run on one card. Default: the speed measured here.",
        lower=1e-6,
    )
    gbit: float = setting(
        GBIT, "With --estimate: network bandwidth between the workers, in Gbit/s.", lower=1e-3
    )
    json: bool = setting(False, "Print JSON, for programs, instead of a table.")


class CheckRequest(NamedTuple):
    """Holds a parsed command line of `albert check`, and whether it names the task."""

    job: Job
    names_task: bool
    settings: CheckSettings


def parse(argv: list[str]) -> CheckRequest:
    """Parses a command line; raises a `FlagError` if the task is unknown or a flag is invalid."""
    program, *rest = argv
    names_task = bool(rest) and not rest[0].startswith("-")
    word = rest.pop(0) if names_task else "squad"
    version = rest.pop(0) if rest and rest[0] in ("1.1", "2.0") else ""
    task = find_task(word, version)
    command_line.parse([program, *rest], __doc__, task.settings, CheckSettings)
    return CheckRequest(task.job(), names_task, CheckSettings.from_flags())


def find_task(word: str, version: str = "") -> TaskProgram:
    """Returns the task of a command or reference program; raises a `FlagError` if unknown."""
    name = os.path.basename(word)
    program = _PROGRAMS.get(name.removesuffix(".py") + ".py")
    if program and version not in ("", program[1]):
        raise FlagError(f"{name} is not for version {version}; remove {version}")
    name, version = program or (name, version)
    # Only the module of this task is imported, so that the help is fast.
    is_task = name in WORDS
    versions = importlib.import_module(module_of(name)).COMMAND.versions if is_task else {}
    if not is_task or version not in ("", *versions):
        known = ", ".join((*WORDS, *_PROGRAMS))
        wrong = f"{word} {version}".rstrip()
        advice = see_help(word, WORDS)
        raise FlagError(f"{wrong} cannot be checked; use one of {known}{advice}")
    return versions.get(version) or next(iter(versions.values()))
