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

from absl import flags

from albert.cli import command_line
from albert.cli.commands import Work, module_of, nearest
from albert.cli.training import TaskProgram
from albert.core.errors import FlagError
from albert.preflight import GBIT
from albert.settings.flags import LARGEST_BATCH

WORK = Work("albert.commands.check")
WORDS = ("squad", "classify", "race", "pretrain")
_PROGRAMS = {
    "run_squad_v1.py": ("squad", "1.1"),
    "run_squad_v2.py": ("squad", "2.0"),
    "run_classifier.py": ("classify", ""),
    "run_race.py": ("race", ""),
    "run_pretraining.py": ("pretrain", ""),
}


class SizeParser(flags.ArgumentParser):
    """Takes the value of a flag as bytes."""

    syntactic_help = "a size such as 32GB"

    def parse(self, argument: str) -> int:
        """Returns the bytes; raises a `ValueError` if that is no size."""
        # With it comes what starts processes, which the help needs none of.
        from albert.preflight.available_memory import parse_size

        return parse_size(argument)


def define_flags() -> None:
    """Defines the flags of the report."""
    flags.DEFINE_bool(
        "bf16",
        False,
        "List which operations TF_BF16_CONVERSION converts to bfloat16, and by which rule; of "
        "the list in bf16_config/ where it is not set.",
    )
    flags.DEFINE(
        SizeParser(),
        "device_memory",
        None,
        "Memory of each card of another machine, such as 32GB, 94GiB or 24000MB, to compare a "
        "training step with. Default: what the device here has.",
    )
    flags.DEFINE_bool(
        "estimate",
        False,
        "Train and predict some batches of the job, 3 of each or 5 minutes, and say how long all "
        "of it takes. What is written meanwhile is in a temporary folder, which is removed.",
    )
    flags.DEFINE_integer(
        "workers",
        None,
        "With --estimate: how long the job takes with so many workers, by a model of the network.",
        lower_bound=1,
        upper_bound=LARGEST_BATCH,
    )
    flags.DEFINE_float(
        "examples_per_second",
        None,
        "With --estimate: what one of these workers trains by itself, as a card's log says. "
        "Default: what a worker trains here.",
        lower_bound=1e-6,
    )
    flags.DEFINE_float(
        "gbit", GBIT, "With --estimate: the network of --workers, Gbit/s.", lower_bound=1e-3
    )
    flags.DEFINE_bool("json", False, "Print JSON for programs instead of a table.")


def parse(argv: list[str]) -> tuple[TaskProgram, bool]:
    """Returns the task of a command line, whose flags are parsed then, and whether it is named.

    Raises:
      FlagError: there is no such task, or see `command_line.parse`.
    """
    program, *rest = argv
    is_named = bool(rest) and not rest[0].startswith("-")
    word = rest.pop(0) if is_named else "squad"
    version = rest.pop(0) if rest and rest[0] in ("1.1", "2.0") else ""
    task = find_task(word, version)
    task.define_all_flags()
    define_flags()
    command_line.parse([program, *rest], __doc__)
    return task, is_named


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
        advice = nearest(word, WORDS)
        raise FlagError(f"{wrong} cannot be checked, {known} can{advice} --help")
    return versions.get(version) or next(iter(versions.values()))
