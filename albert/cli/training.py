"""What the commands that train have in common: a task, its flags, and its run."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from albert.cli.command_line import parse
from albert.core.errors import FlagError
from albert.settings.run_flags import define_flags

# Their help needs no TensorFlow.
if TYPE_CHECKING:
    from albert.training.task import Task


class TaskProgram(NamedTuple):
    """A task as the command line knows it.

    Attributes:
      text: its help.
      define_flags: defines the flags that are its own.
      module: where its class is, which needs TensorFlow.
      name: of the class.
    """

    text: str
    define_flags: Callable[[], None]
    module: str
    name: str

    def define_all_flags(self) -> None:
        """Defines its flags, and those of every run."""
        define_flags(self.define_flags)

    def load(self) -> type[Task]:
        """Imports the task."""
        return getattr(importlib.import_module(self.module), self.name)


class TaskCommand(NamedTuple):
    """A command that trains, by its tasks.

    Attributes:
      versions: tasks by the names of their versions; the first one is that of a command line that
        names none.
    """

    versions: Mapping[str, TaskProgram]

    def define(self, version: str = "") -> TaskProgram:
        """Defines the flags of a version, and returns it."""
        program = self.versions[version] if version else next(iter(self.versions.values()))
        program.define_all_flags()
        return program

    def parse(self, argv: list[str]) -> TaskProgram:
        """Returns the task that a command line asks for, whose flags are parsed then.

        Raises:
          FlagError: see `command_line.parse`.
        """
        name, *rest = argv
        program = self.define(rest.pop(0) if rest and rest[0] in self.versions else "")
        if rest and not rest[0].startswith("-") and self.versions.keys() != {""}:
            known = " or ".join(self.versions)
            raise FlagError(f"{rest[0]!r} is no version; {known} comes before the flags")
        parse([name, *rest], program.text)
        return program
