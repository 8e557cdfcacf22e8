"""The tasks. Commands, checks, the Python API, inference and serving find them in `TASKS`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from albert.checkpoints.model_folder import ModelFolder


class Entry(NamedTuple):
    """Names a task and its parts, which are imported when they are needed.

    Attributes:
      command: the command of `albert` that trains it.
      version: the version of the task that the command takes; "" if there is only one.
      program: the program of the command in the root folder; "" if it has none.
      kind: the name of the task in the records of its runs and models.
      parts: the package or the module of the task, and the beginning of the names of its classes:
        ".race.Race" has `RaceTask` in `race/task.py` and `RaceSettings`, whose docstring is the
        help of the command, in `race/settings.py`. A leading dot means `albert.tasks`.
      model: the class that uses a trained model; "" if it has no use. A leading dot means
        `albert.inference`.
      summary: the command's line in the list of commands.
    """

    command: str
    version: str
    program: str
    kind: str
    parts: str
    model: str
    summary: str

    def load(self, part: str) -> Any:
        """Imports a class, for the part "task" or "settings"; the task imports TensorFlow."""
        folder, _, name = self.parts.rpartition(".")
        module = importlib.import_module(folder, __name__)
        if hasattr(module, "__path__"):
            module = importlib.import_module(f"{module.__name__}.{part}")
        return getattr(module, name + part.capitalize())

    def load_model_class(self) -> Any:
        """Imports the class that uses a trained model."""
        module, _, name = self.model.rpartition(".")
        return getattr(importlib.import_module(module, "albert.inference"), name)


_SQUAD = "answer questions about texts: SQuAD 1.1, SQuAD 2.0 or your own data"
_ANSWERER = ".squad.QuestionAnswerer"
# The first version of a command is its default. A program with another task appends its entry
# before it imports `albert.cli`.
TASKS = [
    Entry("squad", "1.1", "run_squad_v1", "squad-1.1", ".squad.SquadV1", _ANSWERER, _SQUAD),
    Entry("squad", "2.0", "run_squad_v2", "squad-2.0", ".squad.SquadV2", _ANSWERER, _SQUAD),
    Entry(
        *("classify", "", "run_classifier", "glue", ".glue.Glue"),
        *(".classification.TextClassifier", "label texts: GLUE or your own data"),
    ),
    Entry(
        *("race", "", "run_race", "race", ".race.Race"),
        *(".classification.OptionChooser", "choose one of four answers to a question: RACE"),
    ),
    Entry(
        *("entities", "", "run_ner", "entities", ".entities.Entities"),
        *(".entities.EntityFinder", "find named entities in texts: your own data"),
    ),
    Entry(
        *("pretrain", "", "run_pretraining", "pretraining", ".pretraining.Pretraining"),
        *("", "predict masked words and the order of sentences"),
    ),
]


def by_name() -> dict[str, Entry]:
    """Returns the tasks by command, followed by the version unless it is the default."""
    tasks: dict[str, Entry] = {}
    for entry in TASKS:
        name = f"{entry.command} {entry.version}" if entry.command in tasks else entry.command
        tasks[name] = entry
    return tasks


def versions_of(command: str) -> dict[str, Entry]:
    """Returns the tasks of a command by version; empty for commands that train none."""
    return {entry.version: entry for entry in TASKS if entry.command == command}


def completed(model: ModelFolder) -> ModelFolder:
    """Returns a model, after its task has completed the description of a head of `transformers`."""
    if not model.is_trained and "head" in (about := model.description):
        entry = next(entry for entry in TASKS if entry.load("settings").head == about["head"])
        about |= {"task": entry.kind, **entry.load("settings")().head_defaults(about)}
        # With another head, a converted model was trained further in transformers.
        about |= about["trained"] if about["trained"].get("task") == entry.kind else {}
        # Only now, so that after an error the next call fails, too, instead of finding no head.
        del about["head"], about["trained"]
    return model
