"""The command that trains a task: its settings and versions, and its run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from albert.cli.command_line import parse
from albert.core.errors import FlagError
from albert.settings.run_settings import RunSettings
from albert.tasks import Entry, versions_of

# The help of these commands does not need TensorFlow.
if TYPE_CHECKING:
    from albert.training.task import Task


class TaskProgram(NamedTuple):
    """A task, as the command line describes it."""

    entry: Entry

    @property
    def settings(self) -> type[RunSettings]:
        """Returns the class of the settings."""
        return self.entry.load("settings")

    @property
    def text(self) -> str:
        """Returns the help, which is the docstring of the settings."""
        return inspect.cleandoc(self.settings.__doc__ or "")

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

    def with_model(self) -> Job:
        """Returns the job with the files of --model; imports TensorFlow."""
        from albert.checkpoints.model_flags import with_model

        return self._replace(settings=with_model(self.settings))


class TaskCommand:
    """A command that trains one of several versions of a task; the first one is the default.

    It has what a module of `albert.cli` has for another command.
    """

    RESUMES = True

    def __init__(self, name: str):
        self._versions = {name: TaskProgram(entry) for name, entry in versions_of(name).items()}
        # The words that may follow the command.
        self.WORDS = tuple(filter(None, self._versions))

    def define(self, version: str = "") -> Callable[[], Job]:
        """Defines the flags of a version; returns a function that makes a job of parsed flags."""
        program = self.version(version)
        program.settings.define_flags()
        return program.job

    def version(self, name: str = "") -> TaskProgram:
        """Returns the task of a version, by default of the first one."""
        return self._versions[name] if name else next(iter(self._versions.values()))

    def parse(self, argv: list[str]) -> Job:
        """Parses a command line and returns the job that it describes."""
        name, *rest = argv
        program = self.version(rest.pop(0) if rest and rest[0] in self.WORDS else "")
        if rest and not rest[0].startswith("-") and self.WORDS:
            known = " or ".join(self.WORDS)
            raise FlagError(f"{rest[0]!r} is not a version; use {known}, before the flags")
        parse([name, *rest], program.text, program.settings)
        return program.job()

    @staticmethod
    def main(job: Job) -> None:
        """Runs a task with its settings, or the several runs that they describe."""
        task, job = job.program.load(), job.with_model()
        if "" not in job.settings.runs():
            task.run_several(job.settings)
            return
        from albert.training.run import run

        run(task, job.settings)
