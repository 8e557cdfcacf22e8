"""The public functions: a model is loaded, trained and scored from Python as from the command line.

They run in this process, and leave it as they found it: no signal handler, variable of the
environment or handler of the log stays.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from albert.checkpoints.checkpoint_files import best_or_newest, resolve_checkpoint
from albert.core import locks, signals
from albert.core.errors import UserError
from albert.core.files import read_json
from albert.core.log import shown_log
from albert.download.download_pretrained_model import archive_address, download_model
from albert.download.published import MODELS
from albert.inference import Model, load_model
from albert.inference.display import table
from albert.inference.embedding import Embedder
from albert.inference.folders import assemble_folder
from albert.report import PAGE
from albert.report.page import read_page
from albert.settings.fields import Affects
from albert.settings.run_settings import RunSettings
from albert.tasks.glue.settings import GlueSettings
from albert.tasks.glue.task import GlueTask
from albert.tasks.pretraining.settings import PretrainingSettings
from albert.tasks.pretraining.task import PretrainingTask
from albert.tasks.race.settings import RaceSettings
from albert.tasks.race.task import RaceTask
from albert.tasks.squad.settings import SquadV1Settings, SquadV2Settings
from albert.tasks.squad.task import SquadV1Task, SquadV2Task
from albert.tokenization import FullTokenizer
from albert.training.assets import CONFIG, FOLDER, SPM_MODEL, VOCABULARY
from albert.training.run import run
from albert.training.run_record import recorded_settings, recorded_task
from albert.training.task import Task

# By the name of the command.
_TASKS: dict[str, tuple[type[Task], type[RunSettings]]] = {
    "squad": (SquadV1Task, SquadV1Settings),
    "squad 2.0": (SquadV2Task, SquadV2Settings),
    "classify": (GlueTask, GlueSettings),
    "race": (RaceTask, RaceSettings),
    "pretrain": (PretrainingTask, PretrainingSettings),
}
# Where published models are kept, unless this variable of the environment names another folder.
_CACHE = "ALBERT_CACHE"
# What the folder of a pretrained model has, by the setting that names it.
_PRETRAINED = {
    "albert_config_file": ("albert_config.json", "bert_config.json"),
    "spm_model_file": ("*.model",),
    "vocab_file": ("vocab.txt",),
}

AnyPath = str | os.PathLike[str]


class Result(NamedTuple):
    """What a training or a scoring has come to.

    Attributes:
      task: its name, as `train` takes it.
      output_dir: the folder with scores and the page of predictions; after a training it has the
        checkpoints, too.
      scores: of the best checkpoint on the data to score on, by name; empty without such data.
      predictions: what the best checkpoint says there, by the example's id: the text of an answer,
        a label, or a number.
      model: the folder of the run that trained the model.
    """

    task: str
    output_dir: str
    scores: dict[str, float]
    predictions: dict[str, str | float]
    model: str

    def load(self) -> Model:
        """Loads the best checkpoint, see `load`."""
        with shown_log(verbose=False):
            return load_model(self.model)

    def __repr__(self) -> str:
        scores = ", ".join(f"{name} {value:.4g}" for name, value in self.scores.items())
        return f"<{self.task} in {self.output_dir!r}: {scores or 'no scores'}>"

    def _repr_html_(self) -> str:
        return table(("score", ""), self.scores.items(), f"{self.task} in {self.output_dir}")


def load(model: AnyPath | Result) -> Model | Embedder:
    """Loads a trained model, which answers, classifies, chooses or embeds.

    Args:
      model: what `train` has returned, or the folder of a run or an export; or a pretrained model
        for embeddings: its folder or its published name, such as "albert_base_v2", which is fetched
        if it is not there yet.

    Returns:
      A `QuestionAnswerer`, `TextClassifier` or `OptionChooser`, by the model's task; an `Embedder`
      of the last layer and the pooled output of a pretrained model.

    Raises:
      UserError: there is no such model, or it cannot be used.
    """
    path = _path_of(model)
    # In a notebook TensorFlow would write the log, too.
    with shown_log(verbose=False):
        if os.path.isdir(path) and not _pretrained_files(path):
            return load_model(path)
        files = _pretrained(path)
        tokenizer = FullTokenizer(files.get("vocab_file"), True, files.get("spm_model_file"))
        checkpoint = resolve_checkpoint(files["init_checkpoint"])
        config = files["albert_config_file"]
        folder = assemble_folder(path, {}, checkpoint, config, tokenizer)
        longest = {"max_seq_length": folder.config.max_position_embeddings}
        return Embedder(folder._replace(description=longest), layers=[-1], pooled=True)


def train(
    task: str,
    output_dir: AnyPath,
    *,
    model: AnyPath | Result | None = None,
    verbose: bool = True,
    **settings: Any,
) -> Result:
    """Trains a task, and scores it, as the command of its name does.

    The same call with the same folder resumes a training that was interrupted: Ctrl-C, or the
    button of a notebook, ends it after the step that it is at, with a checkpoint.

    Args:
      task: "squad", "squad 2.0", "classify", "race" or "pretrain".
      output_dir: the folder of checkpoints and results.
      model: a model to start from: what `train` has returned, or its folder; or a pretrained one,
        by its folder or its published name, such as "albert_base_v2", which is fetched if it is not
        there yet.
      verbose: whether the log is shown, on standard error.
      settings: the flags of the command, by name: `train_file="train.json", learning_rate=5e-5`.
        Features are made by this process unless `preprocess_workers` says otherwise. "classify"
        trains and scores unless `do_train` and `do_eval` say otherwise.

    Returns:
      The scores and predictions of the best checkpoint.

    Raises:
      UserError: a setting, the input or the environment does not allow it.
      KeyboardInterrupt: it was interrupted; the step that it was at is saved.
    """
    if task not in _TASKS:
        raise UserError(f"{task!r} is no task; there are {', '.join(map(repr, _TASKS))}")
    task_class, kind = _TASKS[task]
    values: dict[str, Any] = {"output_dir": os.path.abspath(os.fspath(output_dir))}
    if "preprocess_workers" in kind.flags():
        # Of a process in which TensorFlow has threads no other ones should be forked.
        values["preprocess_workers"] = 1
    if kind is GlueSettings:
        # The reference's defaults do nothing, which nobody who calls this wants.
        values |= {"do_train": True, "do_eval": True}
    if model is not None:
        path = _path_of(model)
        found = _trained_files(path) or _pretrained(path)
        values |= {name: path for name, path in found.items() if name in kind.flags()}
    checked = kind.of(**{**values, **settings})
    with _running(verbose):
        run(task_class, checked)
    return _result(task, values["output_dir"])


def evaluate(
    model: AnyPath | Result,
    output_dir: AnyPath | None = None,
    *,
    verbose: bool = True,
    **settings: Any,
) -> Result:
    """Scores a trained model on other data.

    Args:
      model: the folder of its run, or what `train` has returned.
      output_dir: the folder of the results; None for a temporary one, which is removed. The
        returned `output_dir` is that of the model then.
      verbose: see `train`.
      settings: flags of the command that trained it: the data, such as `predict_file="dev.json"`,
        and what else is to be other than in the training.

    Raises:
      UserError: the folder has no run, or see `train`.
    """
    folder = _path_of(model)
    recorded = recorded_settings(folder)
    if recorded is None:
        raise UserError(f"{folder} has no run; give the output_dir of a training")
    kind = recorded_task(folder)
    task = next(name for name, (of_task, _) in _TASKS.items() if of_task.kind == kind)
    flags = _TASKS[task][1].flags()
    kept = [name for name, flag in flags.items() if Affects.FEATURES in flag.affects]
    values = {name: recorded[name] for name in kept if name in recorded and not flags[name].is_path}
    values |= _trained_files(folder)
    done = {name: name != "do_train" for name in ("do_train", "do_eval", "do_predict")}
    done["do_predict"] = "do_eval" not in flags
    values |= {name: value for name, value in done.items() if name in flags}
    values |= settings
    if output_dir is not None:
        return train(task, output_dir, verbose=verbose, **values)._replace(model=folder)
    with tempfile.TemporaryDirectory() as temporary:
        result = train(task, temporary, verbose=verbose, **values)
    return result._replace(output_dir=folder, model=folder)


@contextlib.contextmanager
def _running(verbose: bool) -> Iterator[None]:
    """Lets a run end as it should in a process that goes on."""
    environment = dict(os.environ)
    # What a command prints besides its log are some predictions.
    printed = contextlib.nullcontext() if verbose else contextlib.redirect_stdout(io.StringIO())
    with signals.interruptible(), shown_log(verbose), printed:
        try:
            yield
        finally:
            locks.release_held()
            for name in os.environ.keys() - environment.keys():
                del os.environ[name]
            os.environ.update(environment)


def _result(task: str, output_dir: str) -> Result:
    scores, predictions = {}, {}
    path = os.path.join(output_dir, "eval_results.json")
    if os.path.exists(path):
        found = read_json(path, "the scores").items()
        scores = {name: value for name, value in found if isinstance(value, float)}
    page = os.path.join(output_dir, PAGE)
    if os.path.exists(page):
        view = read_page(page)
        labels = view["labels"] if view["kind"] in ("labels", "options") else None
        for sample in view["samples"]:
            answer = sample["answer"]
            predictions[sample["id"]] = labels[answer] if labels else answer
    return Result(task, output_dir, scores, predictions, output_dir)


def _path_of(model: AnyPath | Result) -> str:
    return model.model if isinstance(model, Result) else os.fspath(model)


def _trained_files(folder: str) -> dict[str, str]:
    """Returns the files of a run's model, by setting; none if the folder is not that of a run."""
    checkpoint, assets = best_or_newest(folder), os.path.join(folder, FOLDER)
    names = {"albert_config_file": CONFIG, "spm_model_file": SPM_MODEL, "vocab_file": VOCABULARY}
    paths = {setting: os.path.join(assets, name) for setting, name in names.items()}
    found = {setting: path for setting, path in paths.items() if os.path.exists(path)}
    return {**found, "init_checkpoint": checkpoint} if checkpoint and found else {}


def _pretrained(model: str) -> dict[str, str]:
    """Returns the files of a pretrained model, by setting; fetches it if it is a published name.

    Raises:
      UserError: there is no such model, or it cannot be fetched.
    """
    path = model
    if not os.path.isdir(path):
        if model not in MODELS:
            raise UserError(f"{model} is no folder, and no published model has that name")
        cache = Path(os.environ.get(_CACHE) or "~/.cache/albert-tensorflow").expanduser()
        cache.mkdir(parents=True, exist_ok=True)
        download_model(archive_address(None, model), cache / model)
        path = str(cache / model)
    found = _pretrained_files(path)
    if not found:
        raise UserError(f"{path} has no pretrained model: neither of {_PRETRAINED}")
    return found


def _pretrained_files(folder: str) -> dict[str, str]:
    """Returns the files of a pretrained model, by setting; none if the folder is no such one."""
    found: dict[str, str] = {}
    for name, patterns in _PRETRAINED.items():
        for pattern in patterns:
            if paths := sorted(Path(folder).rglob(pattern)):
                found.setdefault(name, str(paths[0]))
    if "albert_config_file" not in found or os.path.exists(os.path.join(folder, FOLDER)):
        return {}
    return {**found, "init_checkpoint": os.path.dirname(found["albert_config_file"])}
