"""Opens a model's folder as what answers by it."""

from __future__ import annotations

from albert.core.errors import UserError
from albert.inference.classification import OptionChooser, TextClassifier
from albert.inference.folders import open_folder
from albert.inference.squad import QuestionAnswerer

Model = QuestionAnswerer | TextClassifier | OptionChooser
_OF_TASKS: dict[str, type[Model]] = {
    "squad-1.1": QuestionAnswerer,
    "squad-2.0": QuestionAnswerer,
    "glue": TextClassifier,
    "race": OptionChooser,
}


def load_model(path: str) -> Model:
    """Loads a model from a folder that --export_dir or --output_dir has made.

    Raises:
      UserError: there is none, something is missing, or its task has no answers.
    """
    folder = open_folder(path)
    task = folder.value("task")
    if task not in _OF_TASKS:
        raise UserError(
            f"{path} is a model of {task}, which answers nothing; there are answers for "
            f"{', '.join(_OF_TASKS)}"
        )
    return _OF_TASKS[task](folder)
