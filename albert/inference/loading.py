"""Loading of a model by its folder or its published name.

`load` finds the files (`ModelFolder.find`), opens the folder (`folders.py`) and makes the object
that `TASKS` names for its task. That makes a `ModelSession` (`base.py`), whose `PredictSession`
(`albert/prediction/session.py`) builds the graph and reads the weights.

To answer a question, `QuestionAnswerer` (`squad.py`) makes windows (`WindowMaker` in
`albert/tasks/squad/features.py`), runs them (`ModelSession.outputs`) and chooses the best spans
(`answers_of` in `albert/tasks/squad/predictions.py`).
"""

from __future__ import annotations

import os
from typing import Any, Protocol

from albert.checkpoints.model_folder import quantized_encoder
from albert.core.errors import UserError
from albert.core.log import shown_log
from albert.inference.base import SpanFinder
from albert.inference.classification import OptionChooser, TextClassifier
from albert.inference.embedding import Embedder
from albert.inference.folders import OpenModel, open_folder
from albert.inference.squad import ABSTAINS, QuestionAnswerer
from albert.precision import configuration
from albert.prediction.engine import choose_engine, choose_precision, precision_list
from albert.settings.engines import AUTO, ENGINES, LOADED_PRECISIONS
from albert.tasks import TASKS

AnyPath = str | os.PathLike[str]
Model = QuestionAnswerer | TextClassifier | OptionChooser | SpanFinder


class HasModel(Protocol):
    """The result of a training, with the folder of its model."""

    @property
    def model(self) -> str: ...


def load_model(
    path: str,
    engine: str = AUTO,
    precision: str = AUTO,
    handle_impossible_answer: bool | None = None,
) -> Model:
    """Loads a model that answers, and raises a `UserError` for one without a head; see `load`."""
    folder = open_folder(path)
    if "task" not in folder.description:
        raise UserError(
            f"{path} has a pretrained model without a head, which only computes embeddings: use "
            "`albert embed` or `albert.load`, or fine-tune it"
        )
    return _model_of(folder, engine, precision, handle_impossible_answer)


def _model_of(folder: OpenModel, engine: str, precision: str, abstains: bool | None) -> Any:
    """Returns the object for a folder; checks the other arguments, see `load`."""
    given = ("engine", engine, ENGINES), ("precision", precision, LOADED_PRECISIONS)
    for name, value, known in given:
        if value not in known:
            raise UserError(f"the {name} {value!r} is not one of {', '.join(known)}")
    path, about = folder.path, folder.description
    if "task" not in about:
        if precision not in (AUTO, "float32"):
            raise UserError(f"{path} is a pretrained model, which computes in float32")
        folder = folder._replace(engine=choose_engine(engine, None))
        return Embedder(folder, layers=[-1], pooled=about.get("has_pooler", True))
    task, entries = about["task"], {e.kind: e for e in TASKS if e.model}
    if task not in entries:
        raise UserError(
            f"{path} has a model for {task}, which cannot answer or classify; supported tasks are "
            f"{', '.join(entries)}"
        )
    if abstains is not None:
        if task != "squad-1.1":
            raise UserError(f"{ABSTAINS} is for a head of SQuAD 1.1, and {path} is for {task}")
        folder = folder._replace(description={**about, ABSTAINS: abstains})
    precision, low = choose_precision(precision), None
    if precision != "float32":
        low = configuration.chosen(precision, precision_list(folder.config))
    engine = choose_engine(engine, low, quantized_encoder(path))
    return entries[task].load_model_class()(folder._replace(engine=engine, low=low))


def load(
    model: AnyPath | HasModel,
    engine: str = AUTO,
    precision: str = AUTO,
    handle_impossible_answer: bool | None = None,
) -> Model | Embedder:
    """Loads a trained model to answer, classify or choose, or a pretrained model to embed texts.

        >>> model = load("demo_output/run-1")
        >>> result = model.answer("How old is it?", ["The bridge was ready in 1859."])
        >>> result.answers[0].text in "The bridge was ready in 1859."
        True

    Args:
      model: a result of `train`, or the folder of a run, an export or a model of `transformers`
        with a head. To compute embeddings, a pretrained model: its folder or its published name,
        such as "albert_base_v2". A published model is downloaded unless it is already on disk.
      engine: what computes the model: "tensorflow", "openvino", or "auto" for OpenVINO on a CPU
        where it is installed, otherwise TensorFlow.
      precision: the type of a trained model's products: "float32", "bfloat16", or "auto" for
        bfloat16 on a CPU that multiplies faster in it. A pretrained model computes in float32.
      handle_impossible_answer: whether a model of `transformers` for questions was trained on SQuAD
        2.0, and so abstains, as its pipeline does with this argument. By default, what config.json
        has in `task_specific_params` under "question-answering", otherwise False.

    Returns:
      A `QuestionAnswerer`, `TextClassifier`, `OptionChooser` or `SpanFinder`, depending on the
      model's task. For a pretrained model, an `Embedder` for the last layer and the pooled output.
      Each of them also has `encode`, which returns one vector per text.

    Raises:
      UserError: the model does not exist, or cannot be used.
    """
    # In a notebook, TensorFlow would also print the log.
    with shown_log(verbose=False):
        return load_any(path_of(model), engine, precision, handle_impossible_answer)


def load_any(path: str, engine: str, precision: str, abstains: bool | None) -> Model | Embedder:
    """Loads a model with or without a head, with its log; see `load`."""
    return _model_of(open_folder(path), engine, precision, abstains)


def path_of(model: AnyPath | HasModel) -> str:
    """Returns the path or the name of a model; raises a `UserError` for other objects."""
    model = getattr(model, "model", model)
    path = os.fspath(model) if isinstance(model, str | os.PathLike) else ""
    if not path or "\0" in path:
        raise UserError(f"a path, a name or a result of train is needed, not {model!r:.40}")
    return path
