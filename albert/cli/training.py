"""The code that the training commands share: the settings, versions and run of a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from albert.cli.command_line import parse
from albert.core.errors import FlagError
from albert.settings.run_settings import RunSettings
from albert.tasks import TASKS, Entry

# The help of these commands does not need TensorFlow.
if TYPE_CHECKING:
    from albert.training.task import Task


class TaskProgram(NamedTuple):
    """A task, as the command line describes it: its help, and the task in `TASKS`."""

    text: str
    entry: Entry

    @property
    def settings(self) -> type[RunSettings]:
        """Returns the class of the settings."""
        return self.entry.load("settings")

    def load(self) -> type[Task]:
        """Imports the task, which imports TensorFlow."""
        return self.entry.load("task")

    def job(self) -> Job:
        """Returns the job that the parsed flags describe; raises a `FlagError` if it is invalid."""
        settings = self.settings.from_flags()
        # Checked here, before the import of TensorFlow.
        settings.runs()
        return Job(self, settings)


class Job(NamedTuple):
    """A task with its settings."""

    program: TaskProgram
    settings: RunSettings


class TaskCommand(NamedTuple):
    """A command that trains one of several versions of a task.

    `summary` is its line in the list of commands; the first of `versions` is the default.
    """

    summary: str
    versions: Mapping[str, TaskProgram]

    @classmethod
    def of(cls, name: str, summary: str, *texts: str) -> TaskCommand:
        """Returns a command in `TASKS`; `texts` are the helps of its versions."""
        entries = [entry for entry in TASKS if entry.command == name]
        pairs = zip(texts, entries, strict=True)
        return cls(summary, {entry.version: TaskProgram(text, entry) for text, entry in pairs})

    def define(self, version: str = "") -> Callable[[], Job]:
        """Defines the flags of a version; returns a function that makes a job of parsed flags."""
        program = self.version(version)
        program.settings.define_flags()
        return program.job

    def version(self, name: str = "") -> TaskProgram:
        """Returns the task of a version, by default of the first one."""
        return self.versions[name] if name else next(iter(self.versions.values()))

    def parse(self, argv: list[str]) -> Job:
        """Parses a command line and returns the job that it describes."""
        name, *rest = argv
        program = self.version(rest.pop(0) if rest and rest[0] in self.versions else "")
        if rest and not rest[0].startswith("-") and self.versions.keys() != {""}:
            known = " or ".join(self.versions)
            raise FlagError(f"{rest[0]!r} is not a version; use {known}, before the flags")
        parse([name, *rest], program.text, program.settings)
        return program.job()


def run_task(job: Job) -> None:
    """Runs a task with its settings."""
    from albert.training.run import run

    run(job.program.load(), job.settings)
