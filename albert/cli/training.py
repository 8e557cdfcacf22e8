"""The part that the training commands share: a task's settings and versions, and its run."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from albert.cli.command_line import parse
from albert.core.errors import FlagError
from albert.settings.run_settings import RunSettings

# Their help needs no TensorFlow.
if TYPE_CHECKING:
    from albert.training.task import Task


class TaskProgram(NamedTuple):
    """A task as the command line knows it.

    Attributes:
      text: its help.
      settings: what it is set by.
      module: where its class is, which needs TensorFlow.
      name: of the class.
    """

    text: str
    settings: type[RunSettings]
    module: str
    name: str

    def load(self) -> type[Task]:
        """Imports the task."""
        return getattr(importlib.import_module(self.module), self.name)

    def job(self) -> Job:
        """Returns the job that the flags describe, which have been parsed."""
        return Job(self, self.settings.from_flags())


class Job(NamedTuple):
    """A task, and what it is set by."""

    program: TaskProgram
    settings: RunSettings


class TaskCommand(NamedTuple):
    """A command that trains, by its tasks.

    Attributes:
      versions: tasks by the names of their versions; the first one is that of a command line that
        names none.
    """

    versions: Mapping[str, TaskProgram]

    def define(self, version: str = "") -> Callable[[], Job]:
        """Defines the flags of a version; returns what makes a job of them once they are parsed."""
        program = self.version(version)
        program.settings.define_flags()
        return program.job

    def version(self, name: str = "") -> TaskProgram:
        """Returns the task of a version; of the first one if none is named."""
        return self.versions[name] if name else next(iter(self.versions.values()))

    def parse(self, argv: list[str]) -> Job:
        """Returns the job that a command line asks for.

        Raises:
          FlagError: see `command_line.parse`.
        """
        name, *rest = argv
        program = self.version(rest.pop(0) if rest and rest[0] in self.versions else "")
        if rest and not rest[0].startswith("-") and self.versions.keys() != {""}:
            known = " or ".join(self.versions)
            raise FlagError(f"{rest[0]!r} is no version; {known} comes before the flags")
        parse([name, *rest], program.text, program.settings)
        return program.job()


def main(job: Job) -> None:
    """Runs a task under its settings."""
    from albert.training.run import run

    run(job.program.load(), job.settings)
