"""The steps of a run into one output folder under the flags that all programs share.

A task hands in what is its own: the model, the data, the settings that shape a result, and how
the model's outputs become scores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from runtime import app, distributed, estimators, heartbeats, locks
from runtime.bf16 import configuration, conversion
from runtime.checkpoints.checkpoint_files import (
    BEST,
    keep_last,
    list_checkpoints,
    newest_checkpoint,
    point_to_newest,
    resolve_checkpoint,
)
from runtime.data.cached_file import files_of_header
from runtime.devices import device
from runtime.errors import FlagError, UserError
from runtime.files import make_writable_folder, sha256_of
from runtime.flags import (
    FLAGS,
    is_by_oversight_from_scratch,
    keep_checkpoint_max,
    training_plan,
)
from runtime.training.evaluation import Evaluation, Scored
from runtime.training.export import export_saved_model
from runtime.training.loop import make_deterministic, make_estimator, train
from runtime.training.prediction import Output, Predictor
from runtime.training.run_record import begin_run, check_run, clear_litter_of_runs

# From the numbers of training and warmup steps (None in prediction) to a model_fn.
ModelFnMaker = Callable[[int | None, int | None], Callable]
# Flags of all programs that shape the trained weights.
_TRAINING_FLAGS = (
    "train_batch_size",
    "gradient_accumulation_steps",
    "allreduce_dtype",
    "scale_learning_rate",
    "learning_rate",
    "num_train_epochs",
    "train_steps",
    "warmup_proportion",
    "seed",
    "deterministic_run",
    "use_einsum",
)


def connect(facts: dict) -> None:
    """Loads the device, waits for the other workers, and checks that they are to do the same.

    To be called when everything is prepared that can be without them: files are checked, feature
    files made, and no process is forked any more.

    Args:
      facts: what has been prepared, by name: contents of files and the flags that count.

    Raises:
      UserError: the device does not load, or another worker's facts differ.
    """
    device.prepare()
    distributed.connect(on_cpu=device.kind() == "cpu")
    distributed.check_alike(facts)
    heartbeats.start(
        FLAGS.stall_seconds,
        lambda worker: app.fail(
            f"{worker} (--stall_seconds); its process or host hangs or is stopped: start the job "
            "anew to resume",
            1,
        ),
    )


class Run:
    """Training, scoring and export into --output_dir.

    Attributes:
      facts: of what has been prepared, in which all workers must agree.
    """

    def __init__(self, make_model_fn: ModelFnMaker, outputs: Sequence[str] = ()):
        """Checks the initial checkpoint, takes the folder and removes the litter of killed runs.

        Rank 0 alone takes the folder, so that one run at a time works in it.

        Args:
          make_model_fn: the model.
          outputs: names of the files that the task itself writes into the folder.

        Raises:
          UserError: the checkpoint or the folder cannot be used, or another run still uses it.
        """
        self.facts = {"bf16 configuration": _bf16_digest()}
        self._settings = {}
        self._outputs = outputs
        self._make_model_fn = make_model_fn
        self._bf16 = configuration.from_environment()
        if FLAGS.init_checkpoint:
            resolve_checkpoint(FLAGS.init_checkpoint)
        if distributed.is_chief():
            make_writable_folder(FLAGS.output_dir, "--output_dir")
            if not FLAGS["output_dir"].present:
                tf.logging.info("--output_dir is not given: results go to %s", FLAGS.output_dir)
            if FLAGS.export_dir:
                make_writable_folder(FLAGS.export_dir, "--export_dir")
            locks.hold(os.path.join(FLAGS.output_dir, "run"), f"--output_dir {FLAGS.output_dir}")
            clear_litter_of_runs(FLAGS.output_dir, outputs)
        if FLAGS.deterministic_run:
            make_deterministic()

    def check(self, settings: dict) -> None:
        """Checks that the folder is free or holds the run with these settings, which are kept.

        Args:
          settings: what the weights are a function of, from `training_settings`.

        Raises:
          FlagError: it holds another run, or the initial checkpoint would be lost.
        """
        if distributed.is_chief():
            check_output_dir(settings)
            _warn_of_random_weights()
        self._settings = settings
        self.facts |= settings

    def train(
        self, input_fn_from: Callable[[int], Callable], num_steps: int, num_warmup_steps: int
    ) -> None:
        """Trains up to step `num_steps`, from where an earlier run stopped; `check` comes before.

        Args:
          input_fn_from: the training data from a batch on, counted over all workers.
          num_steps: steps of the whole training.
          num_warmup_steps: those in which the learning rate rises.
        """
        plan = training_plan(num_steps)
        done = distributed.share(self._begin() if distributed.is_chief() else None)
        if done >= num_steps:
            tf.logging.info("Training is done already: step %d of %d", done, num_steps)
            return
        tf.logging.info(
            "Training from step %d to %d, %d of them warmup, global batch size %d",
            done,
            num_steps,
            num_warmup_steps,
            plan.global_batch_size,
        )
        start_batch = done * plan.runs_a_step * distributed.size()
        train(self._estimator(num_steps, num_warmup_steps), input_fn_from(start_batch), plan)

    def score(
        self,
        input_fn: Callable,
        num_examples: int,
        scorer: Callable[[list[Output]], Scored],
        key: str,
        settings: dict,
        outputs: Sequence[str] = (),
    ) -> dict | None:
        """Scores every checkpoint that has no scores yet, and logs the best.

        After a training the best and the last --keep_checkpoint_max stay.

        Args:
          input_fn: this worker's share of the batches of --predict_batch_size.
          num_examples: in all batches together.
          scorer: from the model's outputs for all examples to scores; called on rank 0 only.
          key: the score by which the best checkpoint is chosen.
          settings: what scores are a function of, from `scoring_settings`.
          outputs: files that the scorer writes for the best checkpoint.

        Returns:
          The best entry of `Evaluation`; None on other ranks than 0.
        """
        predictor = self.predictor(input_fn, num_examples)
        if not distributed.is_chief():
            predictor.follow()
            return None
        evaluation = Evaluation(FLAGS.output_dir, key, settings, outputs, FLAGS.init_checkpoint)
        best = evaluation.score_all(lambda checkpoint: scorer(predictor.outputs(checkpoint)))
        predictor.finish()
        if FLAGS.do_train:
            keep_last(FLAGS.output_dir, keep_checkpoint_max())
        _report(best, outputs)
        # The run's, also if it was resumed; without a training whose weights they are is not known.
        if self._settings:
            _warn_of_random_weights()
        return best

    def _begin(self) -> int:
        """Records the run and returns the number of steps that are done."""
        begin_run(FLAGS.output_dir, self._settings, self._outputs, FLAGS.overwrite_output_dir)
        return point_to_newest(FLAGS.output_dir)

    def predictor(self, input_fn: Callable, num_examples: int) -> Predictor:
        """The model's outputs for a set of examples, with any checkpoint."""
        estimator = self._estimator(None, None)
        return Predictor(estimator, input_fn, FLAGS.predict_batch_size, num_examples)

    def export(self) -> str:
        """Writes `checkpoint_to_use()` as a SavedModel below --export_dir."""
        # In float32 and without a card's operations: who serves it may have another device.
        with device.as_cpu():
            estimator = self._make_estimator(self._make_model_fn(None, None))
            return export_saved_model(estimator, FLAGS.export_dir, checkpoint_to_use())

    def _estimator(
        self, num_train_steps: int | None, num_warmup_steps: int | None
    ) -> estimators.Estimator:
        model_fn = self._make_model_fn(num_train_steps, num_warmup_steps)
        # On the HPU the bridge reads the configuration and converts the graph itself.
        if self._bf16 and not device.is_hpu():
            model_fn = conversion.convert(model_fn, self._bf16, device.kind())
        return self._make_estimator(model_fn)

    def _make_estimator(self, model_fn: Callable) -> estimators.Estimator:
        return make_estimator(model_fn, FLAGS.output_dir, FLAGS.seed, FLAGS.enable_scoped_allocator)


def check_output_dir(settings: dict) -> None:
    """Checks that --output_dir is free or holds the run with these settings.

    Raises:
      FlagError: it holds another run, or the initial checkpoint would be lost.
    """
    if FLAGS.init_checkpoint:
        folder, name = os.path.split(os.path.realpath(resolve_checkpoint(FLAGS.init_checkpoint)))
        if folder == os.path.realpath(FLAGS.output_dir) and name.startswith("model.ckpt-"):
            raise FlagError(
                f"--init_checkpoint {FLAGS.init_checkpoint} would be replaced or removed by this "
                "run, which has its own checkpoints there; give another --output_dir"
            )
    if not FLAGS.overwrite_output_dir:
        check_run(FLAGS.output_dir, settings)


def checkpoint_to_use() -> str:
    """The best checkpoint of the folder, or else the newest or the initial one.

    Raises:
      UserError: there is none.
    """
    best = os.path.join(FLAGS.output_dir, BEST)
    found = best if os.path.exists(best + ".index") else None
    if not found and (newest := newest_checkpoint(FLAGS.output_dir)):
        found = newest[1]
    found = found or FLAGS.init_checkpoint
    if not found:
        raise UserError(
            f"{FLAGS.output_dir} has no checkpoint; train first, or give --init_checkpoint"
        )
    return resolve_checkpoint(found)


def training_settings(**own: object) -> dict:
    """What trained weights are a function of, by flag name: the task's own and the common ones."""
    return {
        **{name: getattr(FLAGS, name) for name in _TRAINING_FLAGS},
        "number of workers": distributed.size(),
        "bf16 configuration": _bf16_digest(),
        "init_checkpoint": _checkpoint_content(),
        **own,
    }


def scoring_settings(**own: object) -> dict:
    """What scores are a function of besides the checkpoint's name, likewise."""
    run = os.path.join(FLAGS.output_dir, "run.json")
    has_checkpoints = bool(list_checkpoints(FLAGS.output_dir))
    return {
        # Where there are others, it is not what is scored.
        "init_checkpoint": None if has_checkpoints else _checkpoint_content(),
        "run": content_of(run) if os.path.exists(run) else None,
        "bf16 configuration": _bf16_digest(),
        **own,
    }


def _bf16_digest() -> str | None:
    config = configuration.from_environment()
    return config.digest() if config else None


def content_of(path: str) -> str:
    """A file by its content, so that it may be moved."""
    try:
        return "sha256:" + sha256_of(path)[:16]
    except OSError as e:
        raise UserError(f"{path} cannot be read: {e.strerror}") from e


def content_of_records(path: str) -> str:
    """A record file by its content: that of its header, if it has one, which is much shorter.

    That the header describes the file is to be checked before.
    """
    header = path + ".json"
    return content_of(header if files_of_header(header) else path)


def _checkpoint_content() -> str | None:
    """The initial checkpoint by its index, which holds a checksum of every variable."""
    if not FLAGS.init_checkpoint:
        return None
    return content_of(resolve_checkpoint(FLAGS.init_checkpoint) + ".index")


def _warn_of_random_weights() -> None:
    if is_by_oversight_from_scratch():
        tf.logging.warning(
            "--init_checkpoint is not given: this run starts from random weights, no pretrained "
            "ones; --from_scratch says that it is to"
        )


def _report(best: dict, outputs: Sequence[str]) -> None:
    """Logs the best checkpoint's scores and where everything is."""
    tf.logging.info("Results in %s", FLAGS.output_dir)
    scores = {name: f"{value:.4g}" for name, value in best.items() if isinstance(value, float)}
    files = [*map(os.path.basename, outputs), "eval_results.json", "eval_results.txt"]
    rows = {
        **scores,
        "checkpoint": f"{BEST} (step {best['global_step']})",
        "files": ", ".join(files),
    }
    for name, value in rows.items():
        tf.logging.info("  %-12s %s", name, value)
