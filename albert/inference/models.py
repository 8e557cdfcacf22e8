"""Loading of a model by the task that its folder records."""

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
    """Loads a model from a folder that --export_dir or --output_dir has written.

    Raises:
      UserError: there is no model, a file is missing, or the task is not supported.
    """
    folder = open_folder(path)
    task = folder.value("task")
    if task not in _OF_TASKS:
        raise UserError(
            f"{path} has a model for {task}, which cannot answer or classify; supported tasks are "
            f"{', '.join(_OF_TASKS)}"
        )
    return _OF_TASKS[task](folder)
