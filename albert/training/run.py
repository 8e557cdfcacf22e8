"""The stages of a run: prepare, connect, train, score, label, export.

Everything that needs neither the other workers nor the device comes first. Subprocesses are thus
forked before TensorFlow and MPI start threads, and faulty input is reported before any training.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import (
    BEST,
    keep_last,
    list_checkpoints,
    point_to_newest,
    resolve_checkpoint,
)
from albert.checkpoints.model_folder import (
    Assets,
    read_description,
    recorded_settings,
    write_assets,
)
from albert.core import estimators, locks
from albert.core.errors import FlagError, UserError
from albert.core.files import content_of, make_writable_folder
from albert.data import DEV, TEST, TRAIN
from albert.data.batches import Data
from albert.data.cached_file import CachedFile
from albert.data.records import reading_records
from albert.devices import device
from albert.distributed import collectives
from albert.precision import conversion
from albert.settings.run_settings import RunSettings
from albert.training import job, metrics
from albert.training.evaluation import Evaluation
from albert.training.export import export_saved_model
from albert.training.hooks import StepMonitor
from albert.training.job import fetch_missing
from albert.training.loop import make_deterministic, make_estimator, train
from albert.training.output_folder import (
    check_output_dir,
    check_weights,
    checkpoint_to_use,
    precision_digest,
    scoring_settings,
    split_settings,
    training_settings,
    warn_if_init_checkpoint_forgotten,
)
from albert.training.plan import (
    original_batch_settings,
    rescale_to_current_workers,
    training_plan,
)
from albert.training.prediction import Predictor
from albert.training.run_record import begin_run, clear_litter_of_runs
from albert.training.task import Task
from albert.training.tracking import tracking


def run(task_class: type[Task], settings: RunSettings) -> None:
    """Runs a task; raises a `UserError` if flags, input or environment are not valid."""
    for _, one in prepared_runs(task_class, settings, {"": settings}):
        one.finish()


def prepared_runs(
    task_class: type[Task],
    settings: RunSettings,
    runs_of_job: Mapping[str, RunSettings] | None = None,
    check: Callable[[], None] = lambda: None,
    also_prepare: Callable[[Run], None] = lambda run: None,
) -> Iterator[tuple[str, Run]]:
    """Yields the runs of a job by name, each to be finished before the next one.

    A process can join its MPI job only once, and everything that may fork comes before that: all
    runs are prepared before the first one is yielded. With --download_only, there are none.

    Args:
      runs_of_job: the settings of each run, by name; None for those of `RunSettings.runs`.
      check: further checks of the files, which raise a `UserError`.
      also_prepare: called with each run once its own data are prepared.

    Raises:
      UserError: the flags, the input or the environment are not valid.
    """
    if settings.download_only:
        download(task_class, settings, check)
        return
    job.begin_job(settings)
    settings.require(*task_class.required)
    fetch_missing(task_class, settings)
    check()
    # The flags of all runs are checked before a folder is made.
    tasks = {name: task_class(one) for name, one in (runs_of_job or settings.runs()).items()}
    runs, facts = {name: Run(task) for name, task in tasks.items()}, dict[str, Any]()
    # The data of a finished run only take memory.
    tasks.clear()
    for name, run in runs.items():
        if name:
            tf.logging.info("%s: preparing the run", name)
        run.prepare_all()
        also_prepare(run)
        facts |= {f"{name}, {fact}" if name else fact: run.facts[fact] for fact in run.facts}
    job.connect(facts, settings.stall_seconds)
    names = list(runs)
    for number, name in enumerate(names, start=1):
        if name:
            tf.logging.info("%s: run %d of %d", name, number, len(names))
        yield name, runs.pop(name)


def download(
    task_class: type[Task], settings: RunSettings, check: Callable[[], None] = lambda: None
) -> None:
    """Downloads what a job needs, on a machine that need not have the job's device.

    Raises:
      UserError: a download or `check` failed, or the job would not accept its flags or files.
    """
    settings.require(*task_class.required)
    fetch_missing(task_class, settings)
    if settings.init_checkpoint:
        resolve_checkpoint(settings.init_checkpoint)
    for one in settings.runs().values():
        task = task_class(one)
        for split in requested_splits(task):
            task.contents(split)
    check()
    tf.logging.info("All files of the job exist: start it without --download_only")


def requested_splits(task: Task) -> Sequence[str]:
    """Returns the splits that the flags ask for, see `Task.requested_splits`.

    Raises:
      FlagError: --evaluate_while_training or --patience is given without a development set.
    """
    wanted = task.requested_splits()
    if TRAIN in wanted and DEV not in wanted and _scores_while_training(task.settings):
        raise FlagError("--evaluate_while_training and --patience need data to score on")
    return wanted


class Run:
    """A run of a task in --output_dir.

    Attributes:
      facts: properties of the prepared data and flags, which must be equal on all workers.
    """

    def __init__(self, task: Task):
        """Checks the initial checkpoint, locks the folder and removes leftovers of killed runs.

        Only rank 0 locks the folder, so that one run at a time works in it.

        Raises:
          UserError: the checkpoint or the folder cannot be used, or another run uses the folder.
        """
        self.task = task
        self.facts = {"bf16 configuration": precision_digest(task)}
        self._settings = settings = task.settings
        self._precision = task.precision_config()
        job.configure_habana(task)
        self._trains = TRAIN in task.requested_splits()
        # The settings that `run.json` records, set when the training data is prepared.
        self._recorded: dict[str, Any] = {}
        self._data: dict[str, Data] = {}
        # Cached, so that files are not read again for every scored checkpoint.
        self._contents = functools.cache(task.contents)
        if settings.init_checkpoint:
            resolve_checkpoint(settings.init_checkpoint)
        if collectives.is_chief():
            check_weights(task)
            self._take_folder()
        if settings.deterministic_run:
            make_deterministic()

    def _take_folder(self) -> None:
        settings, output_dir = self._settings, self._settings.output_dir
        make_writable_folder(output_dir, "--output_dir")
        if "output_dir" not in settings.given:
            tf.logging.info("--output_dir is not given: results go to %s", output_dir)
        if settings.export_dir:
            make_writable_folder(settings.export_dir, "--export_dir")
        locks.hold_until_exit(os.path.join(output_dir, "run"), f"--output_dir {output_dir}")
        clear_litter_of_runs(output_dir, self._outputs())

    def _outputs(self) -> list[str]:
        labels = self.task.label_outputs
        return [*self.task.outputs, *labels, *(f"{name}.json" for name in labels[:1])]

    def prepare_all(self) -> None:
        """Prepares the splits that the flags ask for; raises the errors of `prepare`."""
        self._data = {split: self.prepare(split) for split in requested_splits(self.task)}

    def finish(self) -> dict | None:
        """Trains, scores, labels and exports what the flags ask for; returns what `score` does.

        Call it after `prepare_all`, and after the workers are connected.
        """
        data, best, is_chief = self._data, None, collectives.is_chief()
        with tracking(self._settings, self.task.kind, is_chief) as start_tracking:
            if TRAIN in data:
                self.train(data[TRAIN], data.get(DEV), on_begin=start_tracking)
            else:
                start_tracking()
            if DEV in data:
                best = self.score(data[DEV])
            if TEST in data:
                self.label(data[TEST])
            if self._settings.export_dir and is_chief:
                self.export()
        return best

    def prepare(self, split: str) -> Data:
        """Prepares a split, so that its features can be read.

        Raises:
          FlagError: the folder holds another run.
          UserError: the input is not valid, or a file of results was not written by this program.
        """
        settings = split_settings(self.task, split, self._contents(split))
        if split == TRAIN:
            self._recorded = settings
            if collectives.is_chief():
                self._check_folder(settings)
                warn_if_init_checkpoint_forgotten(self._settings)
        elif split == TEST and collectives.is_chief():
            check_labels(self.task)
        self.facts |= settings
        data = self.task.split(split).prepared()
        self.facts[f"{split} features"] = data.content
        return data

    def _check_folder(self, current: dict[str, Any]) -> None:
        """Checks that the folder has no other run; sets the settings that `run.json` records."""
        self._recorded = original_batch_settings(self._settings, current)
        check_output_dir(self._settings, self._recorded)

    def start_from(self, checkpoint: str) -> None:
        """Sets the initial checkpoint of a run that follows another, once that one has ended.

        The other ranks need no file, because a training starts from rank 0's variables.

        Raises:
          FlagError: the folder holds a run that started from another checkpoint.
        """
        if collectives.is_chief():
            self._use(self._settings.replaced(init_checkpoint=checkpoint))
            check_weights(self.task)
            self._check_folder(training_settings(self.task, self._contents(TRAIN)))

    def train(
        self,
        data: Data,
        dev: Data | None,
        more_hooks: Sequence[tf.train.SessionRunHook] = (),
        on_begin: Callable[[], None] = lambda: None,
    ) -> None:
        """Trains up to the last step, starting where an earlier run stopped.

        Args:
          dev: the development set, to score each checkpoint as it is written if a flag asks for it.
          more_hooks: see `loop.train`.
          on_begin: called when the folder has the record of the run.
        """
        self._use(
            rescale_to_current_workers(self._settings, collectives.broadcast_object(self._recorded))
        )
        settings = self._settings
        steps = self.task.steps(data.num_examples)
        plan = training_plan(settings, steps[0])
        done = collectives.broadcast_object(self._begin() if collectives.is_chief() else None)
        on_begin()
        if done >= plan.num_steps:
            tf.logging.info("Training is already complete: step %d of %d", done, plan.num_steps)
            return
        after_checkpoint = None
        if dev and _scores_while_training(settings):
            predictor = self.predictor(dev)
            after_checkpoint = functools.partial(self._score_and_ask, dev, predictor)
            # Score the checkpoints that a stopped run left without scores; the scores may end the
            # training.
            has_results = collectives.broadcast_object(
                collectives.is_chief() and self._has_results()
            )
            if has_results and after_checkpoint():
                return
        tf.logging.info(
            "Training from step %d to %d, %d of them warmup, global batch size %d",
            done,
            *steps,
            plan.global_batch_size,
        )
        start_batch = done * plan.micro_batches * collectives.size()
        data = self._in_buckets(data)
        order = data.training_order(plan.global_batch_size, settings.seed)
        if order:
            order.log(plan.num_steps)
        input_fn = data.input_fn(settings.train_batch_size, settings.seed, start_batch, order)
        monitor = StepMonitor()
        estimator = self._make_estimator(monitor.watching(self._model_fn(steps)))
        with reading_records(data.files):
            train(estimator, monitor, input_fn, plan, after_checkpoint, more_hooks)

    def _use(self, settings: RunSettings) -> None:
        self._settings, self.task = settings, self.task.with_settings(settings)

    def _has_results(self) -> bool:
        """Returns whether the folder has a checkpoint to score, other than `resume.ckpt-N`."""
        folder = self._settings.output_dir
        return bool(list_checkpoints(folder)) or os.path.exists(
            os.path.join(folder, f"{BEST}.index")
        )

    def _score_and_ask(self, data: Data, predictor: Predictor) -> bool:
        """Scores checkpoints without scores; returns on all workers whether to end the training."""
        patience = self._settings.patience
        evaluation = self._score_new(data, predictor)
        wants_stop = bool(evaluation and patience and evaluation.since_best() >= patience)
        wants_stop = collectives.broadcast_object(wants_stop)
        if wants_stop:
            tf.logging.info("No better score in %d checkpoints: stopping the training", patience)
        return wants_stop

    def _begin(self) -> int:
        """Records the run and returns the number of completed steps."""
        settings = self._settings
        defaults, outputs = settings.defaults(), self._outputs()
        folder, overwrites = settings.output_dir, settings.overwrite_output_dir
        begin_run(folder, self._recorded, defaults, outputs, overwrites, self.task.kind)
        self._write_assets()
        done = point_to_newest(folder)
        metrics.keep_until(folder, done)
        return done

    def _write_assets(self) -> None:
        """Writes the assets; a prediction, whose flags may differ, keeps those of a training."""
        folder = self._settings.output_dir
        if self._trains or not (recorded_settings(folder) or read_description(folder)):
            write_assets(folder, self.task.assets())

    def score(self, data: Data) -> dict | None:
        """Scores checkpoints without scores; logs the best, and returns its entry on rank 0.

        After a training, keeps the best checkpoint and the last --keep_checkpoint_max.
        """
        predictor = self.predictor(data)
        evaluation = self._score_new(data, predictor)
        if evaluation is None:
            return None
        predictor.log_statistics()
        _report(self._settings.output_dir, evaluation.best, self.task.outputs)
        for line in self.task.samples():
            print(line, flush=True)
        # Repeated at the end for long and resumed runs. A prediction does not know how its weights
        # were initialized.
        if self._trains:
            warn_if_init_checkpoint_forgotten(self._settings)
        return evaluation.best

    def _score_new(self, data: Data, predictor: Predictor) -> Evaluation | None:
        """Scores every checkpoint without scores; returns the evaluation on rank 0, else None."""
        with reading_records(data.files):
            if not collectives.is_chief():
                predictor.follow()
                return None
            evaluation = self._evaluation(data)
            evaluation.score_all(
                lambda checkpoint: self.task.score(data, predictor.outputs(checkpoint))
            )
            predictor.finish()
        if list_checkpoints(self._settings.output_dir):
            # Written again, because the assets may contain scores.
            self._write_assets()
        if self._trains:
            folder, keep = self._settings.output_dir, self._settings.keep_checkpoint_max
            keep_last(folder, keep)
        return evaluation

    def _evaluation(self, data: Data) -> Evaluation:
        key = self.task.score_key(data)
        if key is None:
            tf.logging.warning("There are no answers to compare with: computing no scores")
        settings = self._settings
        return Evaluation(
            settings.output_dir,
            key or "global_step",
            scoring_settings(self.task, self._contents(DEV)),
            self.task.outputs,
            settings.init_checkpoint or None,
            settings.defaults(),
        )

    def label(self, data: Data) -> None:
        """Labels the test set with the best checkpoint, unless the labels already exist.

        Raises:
          UserError: there is no checkpoint, or the features do not belong to the test set.
        """
        predictor = self.predictor(data)
        if not collectives.is_chief():
            predictor.follow()
            return
        checkpoint = checkpoint_to_use(self._settings)
        made_from = {"checkpoint": content_of(checkpoint + ".index")}
        made_from |= scoring_settings(self.task, self._contents(TEST))
        labels = _label_files(self.task, made_from)
        with labels.lock():
            if labels.reusable() is None:
                outputs = predictor.outputs(checkpoint)
                with labels.building() as (names, summary):
                    summary |= self.task.write_labels(data, outputs, names)
        predictor.finish()
        predictor.log_statistics()
        tf.logging.info("Predictions of %s in %s", checkpoint, " and ".join(labels.paths))

    def export(self) -> str:
        """Exports the best checkpoint as a SavedModel below --export_dir; returns its folder."""
        settings = self._settings
        # In float32 and without a card's operations, because the server may have another device.
        with device.as_cpu():
            checkpoint = checkpoint_to_use(settings)
            return export_saved_model(
                self.task.model_fn(None),
                settings.export_dir,
                checkpoint,
                self.task.serving_inputs(),
                self._assets_of(checkpoint),
            )

    def _assets_of(self, checkpoint: str) -> Assets:
        """Returns a checkpoint's assets, with the values that its training recorded."""
        own, recorded = self.task.assets(), read_description(os.path.dirname(checkpoint))
        if recorded is None:
            return own
        # The flags of these values were checked against `run.json`.
        names = {"task", "do_lower_case", "label_threshold"} & own.description.keys()
        checked = {name: own.description[name] for name in names}
        return own._replace(description={**own.description, **recorded, **checked})

    def predictor(self, data: Data, by_length: bool = True) -> Predictor:
        """Returns a predictor for a split and any checkpoint.

        Long records come first, or, without `by_length`, in the order of the file.
        """
        data = self._in_buckets(data)
        size, order = self._settings.predict_batch_size, data.order() if by_length else None
        input_fn = data.input_fn(size, order=order)
        estimator = self._make_estimator(self._model_fn(None))
        return Predictor(estimator, input_fn, size, data.num_records, order)

    def _in_buckets(self, data: Data) -> Data:
        """Returns the data with the lengths of --length_buckets."""
        return data._replace(buckets=self._settings.length_buckets or ())

    def _model_fn(self, steps: tuple[int, int] | None) -> Callable:
        model_fn = self.task.model_fn(steps, self._settings.engine)
        # On the HPU the bridge reads the configuration and converts the graph itself.
        if self._precision and not device.is_hpu():
            model_fn = conversion.convert(model_fn, self._precision, device.kind())
        return model_fn

    def _make_estimator(self, model_fn: Callable) -> estimators.Estimator:
        settings = self._settings
        return make_estimator(
            model_fn, settings.output_dir, settings.seed, settings.enable_scoped_allocator
        )


def check_labels(task: Task) -> None:
    """Raises a `UserError` if a file of test predictions was not written by this program."""
    labels = _label_files(task, {})
    if labels.is_foreign():
        raise UserError(
            f"{labels.paths[0]} exists and was not written by this program; give another "
            "--output_dir or remove it"
        )


def _label_files(task: Task, made_from: dict) -> CachedFile:
    """Returns the cached files of test predictions, for the sources in `made_from`."""
    folder = task.settings.output_dir
    first, *others = (os.path.join(folder, name) for name in task.label_outputs)
    return CachedFile(first, made_from, others)


def _scores_while_training(settings: RunSettings) -> bool:
    """Returns whether each checkpoint is scored as soon as it is written."""
    return bool(settings.evaluate_while_training or settings.patience)


def _report(output_dir: str, best: dict, outputs: Sequence[str]) -> None:
    """Logs the best checkpoint's scores and the names of the files."""
    tf.logging.info("Results in %s", output_dir)
    scores = {name: f"{value:.4g}" for name, value in best.items() if isinstance(value, float)}
    rows = {
        **scores,
        "checkpoint": f"{BEST} (step {best['global_step']})",
        "files": ", ".join([*outputs, "eval_results.json", "eval_results.txt"]),
    }
    for name, value in rows.items():
        tf.logging.info("  %-12s %s", name, value)
