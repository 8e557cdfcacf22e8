"""Checks a job before a card is booked: what is there, what is missing, how long and large.

  albert check COMMAND FLAGS-OF-THE-COMMAND [--bf16] [--estimate] [--json]
  albert check [--json]                                      the machine alone

COMMAND is squad, squad 2.0, classify, race or pretrain, or a program such as run_squad_v1.py.
Nothing is written, and nothing is trained unless --estimate asks how long the job takes: then some
batches are. Exit code 1 if the job would fail. Under mpirun every rank checks its own host, and
what differs from rank 0 is listed. --device_memory=32GB compares the memory of a training step with
that of a card elsewhere. `albert race --help` explains the flags of the command race.
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

ENTRY_POINT = EntryPoint("albert.commands.check")
WORDS = ("squad", "classify", "race", "pretrain")
_PROGRAMS = {
    "run_squad_v1.py": ("squad", "1.1"),
    "run_squad_v2.py": ("squad", "2.0"),
    "run_classifier.py": ("classify", ""),
    "run_race.py": ("race", ""),
    "run_pretraining.py": ("pretrain", ""),
}


def _size(text: str) -> int:
    """Returns a size of memory in bytes; raises a `ValueError` if the text is none."""
    # With it comes what starts processes, which the help needs none of.
    from albert.preflight.available_memory import parse_size

    return parse_size(text)


class CheckSettings(Settings):
    """What the report has besides the job."""

    bf16: bool = setting(
        False,
        "List which operations TF_BF16_CONVERSION converts to bfloat16, and by which rule; of "
        "the list in bf16_config/ where it is not set.",
    )
    device_memory: int | None = setting(
        None,
        "Memory of each card of another machine, such as 32GB, 94GiB or 24000MB, to compare a "
        "training step with. Default: what the device here has.",
        parser=_size,
    )
    estimate: bool = setting(
        False,
        "Train and predict some batches of the job, 3 of each or 5 minutes, and say how long all "
        "of it takes. What is written meanwhile is in a temporary folder, which is removed.",
    )
    workers: int | None = setting(
        None,
        "With --estimate: how long the job takes with so many workers, by a model of the network.",
        lower=1,
        upper=LARGEST_BATCH,
    )
    examples_per_second: float | None = setting(
        None,
        "With --estimate: what one of these workers trains by itself, as a card's log says. "
        "Default: what a worker trains here.",
        lower=1e-6,
    )
    gbit: float = setting(GBIT, "With --estimate: the network of --workers, Gbit/s.", lower=1e-3)
    json: bool = setting(False, "Print JSON for programs instead of a table.")


class CheckRequest(NamedTuple):
    """What a command line asks for.

    Attributes:
      job: to be checked.
      names_task: whether the command line names the task.
      settings: of the report.
    """

    job: Job
    names_task: bool
    settings: CheckSettings


def parse(argv: list[str]) -> CheckRequest:
    """Parses a command line.

    Raises:
      FlagError: there is no such task, or see `command_line.parse`.
    """
    program, *rest = argv
    names_task = bool(rest) and not rest[0].startswith("-")
    word = rest.pop(0) if names_task else "squad"
    version = rest.pop(0) if rest and rest[0] in ("1.1", "2.0") else ""
    task = find_task(word, version)
    command_line.parse([program, *rest], __doc__, task.settings, CheckSettings)
    return CheckRequest(task.job(), names_task, CheckSettings.from_flags())


def find_task(word: str, version: str = "") -> TaskProgram:
    """Returns the task of a command, or of a program of the reference.

    Raises:
      FlagError: there is none.
    """
    name = os.path.basename(word)
    of_program = _PROGRAMS.get(name.removesuffix(".py") + ".py")
    if of_program and version not in ("", of_program[1]):
        raise FlagError(f"{name} is not of version {version}; leave that out")
    name, version = of_program or (name, version)
    # Of the others the help need not know anything.
    is_task = name in WORDS
    versions = importlib.import_module(module_of(name)).COMMAND.versions if is_task else {}
    if not is_task or version not in ("", *versions):
        known = ", ".join((*WORDS, *_PROGRAMS))
        wrong = f"{word} {version}".rstrip()
        advice = see_help(word, WORDS)
        raise FlagError(f"{wrong} cannot be checked, {known} can{advice}")
    return versions.get(version) or next(iter(versions.values()))
