"""The tasks. Commands, checks, the Python API, inference and serving find them in `TASKS`."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """Names a task and its parts, which are imported when they are needed.

    Attributes:
      command: the command of `albert` that trains it; `albert.cli` has a module for each.
      version: the version of the task that the command takes; "" if there is only one.
      program: the program of the command in the root folder.
      kind: the name of the task in the records of its runs and models.
      parts: the folder, and the beginning of the names of the classes for the task and its
        settings: "race.Race" has `RaceTask` in `task.py` and `RaceSettings` in `settings.py`.
      model: the class in `albert.inference` that uses a trained model; "" if it has no use.
    """

    command: str
    version: str
    program: str
    kind: str
    parts: str
    model: str

    def load(self, part: str) -> Any:
        """Imports a class, for the part "task" or "settings"; the task imports TensorFlow."""
        folder, name = self.parts.split(".")
        module = importlib.import_module(f"albert.tasks.{folder}.{part}")
        return getattr(module, name + part.capitalize())


# The first version of a command is its default.
TASKS = (
    Entry("squad", "1.1", "run_squad_v1", "squad-1.1", "squad.SquadV1", "squad.QuestionAnswerer"),
    Entry("squad", "2.0", "run_squad_v2", "squad-2.0", "squad.SquadV2", "squad.QuestionAnswerer"),
    Entry("classify", "", "run_classifier", "glue", "glue.Glue", "classification.TextClassifier"),
    Entry("race", "", "run_race", "race", "race.Race", "classification.OptionChooser"),
    Entry("entities", "", "run_ner", "entities", "entities.Entities", "entities.EntityFinder"),
    Entry("pretrain", "", "run_pretraining", "pretraining", "pretraining.Pretraining", ""),
)
COMMANDS = tuple(dict.fromkeys(entry.command for entry in TASKS))
