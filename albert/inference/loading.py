"""Loading of a model by its folder or its published name."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Protocol

from albert.checkpoints.checkpoint_files import resolve_checkpoint
from albert.checkpoints.model_folder import ASSETS
from albert.core.errors import UserError
from albert.core.log import shown_log
from albert.inference.base import SpanFinder
from albert.inference.classification import OptionChooser, TextClassifier
from albert.inference.embedding import Embedder
from albert.inference.folders import assemble_folder, open_folder
from albert.inference.squad import QuestionAnswerer
from albert.settings.engines import ENGINES, TENSORFLOW
from albert.tasks import TASKS
from albert.tokenization import FullTokenizer

AnyPath = str | os.PathLike[str]
Model = QuestionAnswerer | TextClassifier | OptionChooser | SpanFinder
# By the names of tasks in records.
_CLASSES = {entry.kind: entry.model for entry in TASKS if entry.model}
# An environment variable that may name another folder to keep published models in.
_CACHE = "ALBERT_CACHE"
# The files in the folder of a pretrained model, by the setting that takes each.
_FILES = {
    "albert_config_file": ("albert_config.json", "bert_config.json"),
    "spm_model_file": ("*.model",),
    "vocab_file": ("vocab.txt",),
}


class HasModel(Protocol):
    """The result of a training."""

    @property
    def model(self) -> str:
        """Returns the folder of the model."""


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


def load(model: AnyPath | HasModel, engine: str = TENSORFLOW) -> Model | Embedder:
    """Loads a trained model to answer, classify or choose, or a pretrained model to embed texts.

    Args:
      model: a result of `train`, or the folder of a run or an export. To compute embeddings, a
        pretrained model: its folder or its published name, such as "albert_base_v2". A published
        model is downloaded unless it is already on disk.
      engine: what computes a trained model: "tensorflow", or "onnxruntime" on the CPU.

    Returns:
      A `QuestionAnswerer`, `TextClassifier`, `OptionChooser` or `SpanFinder`, depending on the
      model's task. For a pretrained model, an `Embedder` for the last layer and the pooled output.
      Each of them also has `encode`, which returns one vector per text.

    Raises:
      UserError: the model does not exist, or cannot be used.
    """
    path = path_of(model)
    # In a notebook, TensorFlow would also print the log.
    with shown_log(verbose=False):
        if os.path.isdir(path) and not _files_in(path):
            return load_model(path, engine)
        if engine != TENSORFLOW:
            raise UserError(f"{path} is a pretrained model, which only TensorFlow computes")
        files = pretrained_files(path)
        tokenizer = FullTokenizer(files.get("vocab_file"), True, files.get("spm_model_file"))
        checkpoint = resolve_checkpoint(files["init_checkpoint"])
        config = files["albert_config_file"]
        folder = assemble_folder(path, {}, checkpoint, config, tokenizer)
        longest = {"max_seq_length": folder.config.max_position_embeddings}
        return Embedder(folder._replace(description=longest), layers=[-1], pooled=True)


def path_of(model: AnyPath | HasModel) -> str:
    """Returns the path or the name of a model; raises a `UserError` for other objects."""
    model = getattr(model, "model", model)
    if not isinstance(model, str | os.PathLike):
        raise UserError(f"a path, a name or a result of train is needed, not {model!r:.40}")
    return os.fspath(model)


def pretrained_files(model: str) -> dict[str, str]:
    """Returns a pretrained model's files by setting; downloads a published model by its name."""
    path = model
    if not os.path.isdir(path):
        # Most models are on disk, and need not import what downloads them.
        from albert.download.download_pretrained_model import archive_address, download_model
        from albert.download.published import MODELS

        if model not in MODELS:
            raise UserError(f"{model} is neither a folder nor the name of a published model")
        cache = Path(os.environ.get(_CACHE) or "~/.cache/albert-tf").expanduser()
        cache.mkdir(parents=True, exist_ok=True)
        download_model(archive_address(None, model), cache / model)
        path = str(cache / model)
    files = _files_in(path)
    if not files:
        expected = "; ".join(" or ".join(patterns) for patterns in _FILES.values())
        raise UserError(f"{path} has no pretrained model; expected files: {expected}")
    return files


def _files_in(folder: str) -> dict[str, str]:
    """Returns the files of a pretrained model, by setting; an empty dict if it has none."""
    files: dict[str, str] = {}
    if os.path.exists(os.path.join(folder, ASSETS)):
        return files
    for name, patterns in _FILES.items():
        for pattern in patterns:
            if paths := sorted(Path(folder).rglob(pattern)):
                files.setdefault(name, str(paths[0]))
    if "albert_config_file" not in files:
        return {}
    return {**files, "init_checkpoint": os.path.dirname(files["albert_config_file"])}
