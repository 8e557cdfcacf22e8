"""The command that trains a task: its settings and versions, and its run."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from albert.cli.command_line import parse
from albert.core.errors import FlagError
from albert.settings.run_settings import RunSettings
from albert.tasks import Entry, versions_of


class Job(NamedTuple):
    """A task with its settings."""

    entry: Entry
    settings: RunSettings

    def with_model(self) -> Job:
        """Returns the job with the files of --model; imports TensorFlow."""
        from albert.checkpoints.model_flags import with_model

        return self._replace(settings=with_model(self.settings))


def job_of(entry: Entry, paths: Sequence[str] = ()) -> Job:
    """Returns the job that the parsed flags describe, on own data if there is a path.

    Raises a `FlagError` if it is invalid.
    """
    settings = entry.load("settings").from_flags()
    if paths:
        settings = settings.with_data(paths[0])
    if len(paths) > 1:
        raise FlagError(f"{paths[1]!r} is a second path; put the files of the splits in a folder")
    # Checked here, before the import of TensorFlow.
    settings.runs()
    return Job(entry, settings)


class TaskCommand:
    """A command that trains one of several versions of a task; the first one is the default.

    It has what a module of `albert.cli` has for another command.
    """

    RESUMES = True

    def __init__(self, name: str):
        self._versions = versions_of(name)
        # The words that may follow the command.
        self.WORDS = tuple(filter(None, self._versions))

    def define(self, version: str = "") -> Callable[[], Job]:
        """Defines the flags of a version; returns a function that makes a job of parsed flags."""
        entry = self._version(version)
        entry.load("settings").define_flags()
        return functools.partial(job_of, entry)

    def _version(self, name: str) -> Entry:
        """Returns the task of a version, for "" of the first one."""
        return self._versions[name] if name else next(iter(self._versions.values()))

    def parse(self, argv: list[str]) -> Job:
        """Parses a command line and returns the job that it describes."""
        name, *rest = argv
        entry = self._version(rest.pop(0) if rest and rest[0] in self.WORDS else "")
        if rest and rest[0][:1] != "-" and self.WORDS and not os.path.exists(rest[0]):
            known = " or ".join(self.WORDS)
            raise FlagError(f"{rest[0]!r} is neither a file nor a version, which is {known}")
        settings = entry.load("settings")
        paths = parse([name, *rest], inspect.getdoc(settings), settings, arguments=True)
        return job_of(entry, paths)

    @staticmethod
    def main(job: Job) -> None:
        """Runs a task with its settings, or the several runs that they describe."""
        task, job = job.entry.load("task"), job.with_model()
        if "" not in job.settings.runs():
            task.run_several(job.settings)
            return
        from albert.training.run import run

        run(task, job.settings)
