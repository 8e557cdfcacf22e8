"""Loading of a model by the task that its folder records."""

from __future__ import annotations

import importlib

from albert.core.errors import UserError
from albert.inference.classification import OptionChooser, TextClassifier
from albert.inference.folders import open_folder
from albert.inference.spans import SpanFinder
from albert.inference.squad import QuestionAnswerer
from albert.settings.run_settings import ENGINES, TENSORFLOW
from albert.tasks import TASKS

Model = QuestionAnswerer | TextClassifier | OptionChooser | SpanFinder
# By the names of tasks in records.
_CLASSES = {entry.kind: entry.model for entry in TASKS if entry.model}


def load_model(path: str, engine: str = TENSORFLOW) -> Model:
    """Loads a model from a folder that --export_dir or --output_dir has written.

    `engine` computes the encoder: "tensorflow", or "onnxruntime", which is for the CPU.

    Raises:
      UserError: there is no model, a file or a package is missing, or the task or the engine is not
        supported.
    """
    if engine not in ENGINES:
        raise UserError(f"the engine {engine!r} is not one of {', '.join(ENGINES)}")
    folder = open_folder(path)._replace(engine=engine)
    task = folder.value("task")
    if task not in _CLASSES:
        raise UserError(
            f"{path} has a model for {task}, which cannot answer or classify; supported tasks are "
            f"{', '.join(_CLASSES)}"
        )
    module, name = _CLASSES[task].split(".")
    return getattr(importlib.import_module(f"albert.inference.{module}"), name)(folder)
