"""The public functions, which load, train and score a model from Python.

They do the same as the commands, but in this process. When they return, they restore its signal
handlers, environment variables and log handlers.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from albert.checkpoints.model_flags import with_model
from albert.checkpoints.model_folder import ModelFolder, recorded_scores
from albert.core import locks, signals
from albert.core.errors import UserError
from albert.core.log import shown_log
from albert.download.named_model import local_folder
from albert.inference.loading import AnyPath, Model, load_model, path_of
from albert.records import DEV, TRAIN
from albert.report import PREDICTIONS
from albert.report.predictions import read_samples
from albert.report.spans import Span, prediction_of
from albert.settings.fields import Affects
from albert.settings.run_settings import RunSettings
from albert.tables.rows import rows_of, write_splits
from albert.tasks import by_name, completed
from albert.training.run import run

# A run changes the output, the log and the environment of the process, so threads take turns.
_ONE_RUN = threading.RLock()
# The columns of rows that are tuples.
_TUPLES = ("text", "label"), ("text_a", "text_b", "label")


class Result(NamedTuple):
    """The result of `train` or `evaluate`.

    Attributes:
      output_dir: the folder with the scores and the page of predictions; after a training, it also
        has the checkpoints.
      scores: the scores of the best checkpoint, by name; empty if there was no data to score on.
      predictions: the predictions of the best checkpoint on that data, by the example's id: the
        text of an answer, a label, a list of labels, a list of spans, or a number.
      model: the folder of the run that trained the model.
    """

    task: str
    output_dir: str
    scores: dict[str, float]
    predictions: dict[str, str | float | list[str] | list[Span]]
    model: str

    def load(self) -> Model:
        """Loads the best checkpoint; see the function `load`."""
        with shown_log(verbose=False):
            return load_model(self.model)

    def __repr__(self) -> str:
        scores = ", ".join(f"{name} {value:.4g}" for name, value in self.scores.items())
        return f"<{self.task} in {self.output_dir!r}: {scores or 'no scores'}>"


def train(
    task: str,
    output_dir: AnyPath,
    *,
    data: object = None,
    dev_data: object = None,
    model: AnyPath | Result | None = None,
    verbose: bool = True,
    **settings: Any,
) -> Result:
    """Trains and scores a model, like the command with the name of the task.

    Ctrl-C, or the interrupt button of a notebook, ends a training after its current step and writes
    a checkpoint. To resume the training, call the function again with the same folder. If several
    threads call it, the trainings run one at a time.

        >>> result = train(
        ...     "classify", "out/tickets", model="demo_output/run-1", task_name="tsv",
        ...     data_dir="examples/tickets", train_steps=2, max_seq_length=32, verbose=False,
        ... )
        >>> sorted(result.scores)
        ['eval_accuracy', 'eval_loss']

    Args:
      task: the name of the command that trains it, such as "squad", "squad 2.0" or "classify".
      output_dir: the folder for checkpoints and results.
      data: your own data: a path, with the same effect as on the command line, or rows: a list of
        dictionaries, a DataFrame or a table of Arrow; for "classify" also pairs (text, label). Rows
        are written to `data/` in the folder.
      dev_data: rows to score on; by default, a fifth of `data`.
      model: a model to start from: a result of `train`, the folder of a run, or a pretrained model,
        by its folder or its published name, such as "albert_base_v2". A published model is
        downloaded unless it is already on disk.
      verbose: whether to show the log, on standard error.
      settings: the flags of the command, by name: `train_file="train.json", learning_rate=5e-5`.
        Two defaults differ from the command: `preprocess_workers` is 1, so that this process makes
        the features, and for "classify" `do_train` and `do_eval` are true.

    Raises:
      UserError: a setting, the input or the environment has an error.
      KeyboardInterrupt: the training was interrupted, after its current step was saved.
    """
    tasks = by_name()
    if not isinstance(task, str) or task not in tasks:
        raise UserError(f"unknown task {task!r}; use one of {', '.join(map(repr, tasks))}")
    kind = tasks[task].load("settings")
    values: dict[str, Any] = {"output_dir": os.path.abspath(path_of(output_dir))}
    if "preprocess_workers" in kind.flags():
        # TensorFlow has threads in this process, so forking it is not safe.
        values["preprocess_workers"] = 1
    if not any(getattr(kind(), name) for name in ("do_train", "do_eval", "do_predict")):
        # With the reference's defaults, the call would do nothing.
        values |= {"do_train": True, "do_eval": True}
    if model is not None:
        values["model"] = path_of(model)
    checked = kind.of(**{**values, **settings})
    with _ONE_RUN:
        if data is not None or dev_data is not None:
            checked = _with_data(checked, task, data, dev_data)
        checked = with_model(checked)
        with _running(verbose):
            run(tasks[task].load("task"), checked)
    folder, predictions = values["output_dir"], {}
    scores = {n: value for n, value in recorded_scores(folder).items() if isinstance(value, float)}
    if os.path.exists(os.path.join(folder, PREDICTIONS)):
        predictions = {s["id"]: prediction_of(s) for s in read_samples(folder)}
    return Result(task, folder, scores, predictions, folder)


def evaluate(
    model: AnyPath | Result,
    output_dir: AnyPath | None = None,
    *,
    verbose: bool = True,
    **settings: Any,
) -> Result:
    """Scores a trained model on other data.

        >>> data = "demo_output/data-1/dev-v1.1.json"
        >>> result = evaluate("demo_output/run-1", predict_file=data, verbose=False)
        >>> sorted(result.scores)
        ['exact_match', 'f1']

    Args:
      model: the folder of the model's run, a result of `train`, an export, or a model of
        `transformers` with a head, by its folder or its name on the hub.
      output_dir: the folder for the results. If None, the results go to a temporary folder, which
        is removed, and the returned `output_dir` is that of the model.
      verbose: see `train`.
      settings: flags of the command that trained the model: the data, such as
        `predict_file="dev.json"` or `data=rows`, and any flag whose value must differ from the
        training.

    Raises:
      UserError: the folder has no model with a head, or see `train`.
    """
    path, tasks = path_of(model), by_name()
    with shown_log(verbose=False):
        # Once, because the hub would be asked again for its revision.
        folder = local_folder(path)
        known = completed(ModelFolder.find(folder)).known
    if "task" not in known:
        raise UserError(f"{path} has a pretrained model without a head; fine-tune it first")
    task = next(name for name, entry in tasks.items() if entry.kind == known["task"])
    flags = tasks[task].load("settings").flags()
    kept = [name for name, flag in flags.items() if Affects.FEATURES in flag.affects]
    values = {name: known[name] for name in kept if name in known and not flags[name].is_path}
    values["model"] = folder
    done_by = tasks[task].load("task").done_by.items()
    values |= {name: split == DEV for split, name in done_by if name in flags}
    values |= settings
    if output_dir is not None:
        return train(task, output_dir, verbose=verbose, **values)._replace(model=folder)
    with tempfile.TemporaryDirectory() as temporary:
        result = train(task, temporary, verbose=verbose, **values)
    return result._replace(output_dir=folder, model=folder)


def _with_data(settings: RunSettings, task: str, data: object, dev_data: object) -> RunSettings:
    """Returns the settings of a run on a path or on rows, which it writes."""
    if type(settings).with_data is RunSettings.with_data:
        raise UserError(f"data is not for {task!r}; pass the flags of `albert {task}`")
    has_dev = dev_data is not None
    if has_dev and (data is None or isinstance(data, str | os.PathLike)):
        raise UserError("dev_data needs rows as data; for files, pass a folder with both as data")
    taken = {"data_dir", "train_file"} | ({"predict_file", "dev_fraction"} if has_dev else set())
    for name in sorted(taken & settings.given):
        raise UserError(f"data and {name} contradict each other; remove one of them")
    if isinstance(data, str | os.PathLike):
        return settings.with_data(os.path.abspath(data))
    names = _TUPLES if task == "classify" else ()
    rows = {
        TRAIN: rows_of(data, names),
        DEV: rows_of(dev_data, names, "dev_data") if has_dev else None,
    }
    if not settings.do_train:
        if has_dev:
            raise UserError("dev_data is for training; pass the rows to score on as data")
        rows = {TRAIN: None, DEV: rows[TRAIN]}
    folder = os.path.join(settings.output_dir, "data")
    write_splits(folder, rows)
    return settings.with_data(folder)


@contextlib.contextmanager
def _running(verbose: bool) -> Iterator[None]:
    """Restores the log, environment variables and signal handlers after a run."""
    # In addition to its log, a command prints some predictions.
    printed = contextlib.nullcontext() if verbose else contextlib.redirect_stdout(io.StringIO())
    with _ONE_RUN, signals.interruptible(), shown_log(verbose), printed:
        environment = dict(os.environ)
        try:
            yield
        finally:
            locks.release_held()
            for name in os.environ.keys() - environment.keys():
                del os.environ[name]
            os.environ.update(environment)
