"""The training loop of all tasks, on an `Estimator`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import newest_checkpoint
from albert.checkpoints.sharded_state import ShardedState
from albert.core import estimators, signals
from albert.core.errors import NOT_FINITE, UserError
from albert.core.text import first_line
from albert.devices import device, habana
from albert.distributed import collectives, exchange
from albert.records.records import reading_records
from albert.settings.run_settings import RunSettings
from albert.training.checkpoint_hook import SaveCheckpoints
from albert.training.log_hook import StepMonitor, TrainingLog

# The operating system's errors, as TensorFlow's messages quote them.
_CANNOT_WRITE = ("No space left on device", "Disk quota exceeded", "File too large")


def make_estimator(model_fn: Callable, settings: RunSettings) -> estimators.Estimator:
    """Returns an estimator for the checkpoints in --output_dir; `train` writes and removes them.

    With --seed, each worker draws different dropout masks.
    """
    output_dir = settings.output_dir
    # A separate folder keeps the other ranks from restoring or writing rank 0's files.
    chief = collectives.is_chief()
    model_dir = output_dir if chief else os.path.join(output_dir, f"rank-{collectives.rank()}")
    config = estimators.RunConfig(
        model_dir=model_dir,
        tf_random_seed=settings.seed + collectives.rank(),
        save_summary_steps=None,
        save_checkpoints_steps=None,
        save_checkpoints_secs=None,
        keep_checkpoint_max=0,
        log_step_count_steps=None,
        session_config=_session_config(settings.enable_scoped_allocator),
    )
    # The reference's model functions take `params`, and an estimator without any logs a warning.
    estimator = habana.estimator_class() if device.is_hpu() else estimators.Estimator
    return estimator(model_fn, config=config, params={"model_dir": model_dir})


def _session_config(scoped_allocator: bool) -> tf.ConfigProto:
    """Returns the options of the sessions, for `scoped_allocator` with those of Habana's fork."""
    config = device.session_config()
    if not scoped_allocator:
        return config
    if not collectives.is_habana_horovod():
        tf.logging.info(
            "--enable_scoped_allocator has no effect with this Horovod, only with "
            "habana-horovod; gradients are sent as one vector anyway"
        )
        return config
    rewrites = config.graph_options.rewrite_options
    rewrites.scoped_allocator_optimization = type(rewrites).ON
    rewrites.scoped_allocator_opts.enable_op.append("HorovodAllreduce")
    return config


def train(
    estimator: estimators.Estimator,
    monitor: StepMonitor,
    input_fn: Callable,
    settings: RunSettings,
    num_steps: int,
    after_checkpoint: Callable[[], bool] | None = None,
    more_hooks: Sequence[tf.train.SessionRunHook] = (),
) -> None:
    """Trains from the newest checkpoint, or the beginning, up to step `num_steps`.

    Only rank 0 writes files; the other workers start from its variables.

    Args:
      monitor: watches the estimator's `model_fn`.
      input_fn: this worker's training data, starting at the current step.
      after_checkpoint: see `after_result` of `SaveCheckpoints`.
      more_hooks: session hooks that run after those that log and save.

    Raises:
      UserError: the loss is no longer finite, the disk is full, or a checkpoint is damaged.
      signals.Stopped: a signal ended the training; a checkpoint of the last step is saved.
    """
    folder = estimator.model_dir
    log = TrainingLog(monitor, folder if collectives.is_chief() else None, num_steps, settings)

    def after_result() -> bool:
        started = time.perf_counter()
        wants_stop = bool(after_checkpoint and after_checkpoint())
        log.exclude(time.perf_counter() - started)
        return wants_stop

    state = ShardedState(folder, lambda: monitor.step.sharded)
    after = after_result if after_checkpoint else None
    save = SaveCheckpoints(folder, num_steps, settings, after, state)
    try:
        hooks = [*collectives.starting_hooks(), state, log, save, *more_hooks]
        with reading_records():
            estimator.train(_timed(input_fn, monitor), hooks=hooks, max_steps=num_steps)
        _stop_together(f" at step {log.step} of {num_steps}, which is saved")
    except tf.errors.OpError as e:
        reason = user_message(e, folder, log.step)
        if reason is None:
            raise
        raise UserError(reason) from e
    finally:
        signals.raise_stopped()


def _timed(input_fn: Callable, monitor: StepMonitor) -> Callable:
    """Returns an `input_fn` that times each wait for a batch; unchanged on the HPU."""
    if device.is_hpu():
        # It has its own iterator.
        return input_fn

    def timed_input_fn() -> dict[str, tf.Tensor]:
        batches = tf.data.make_initializable_iterator(input_fn())
        tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, batches.initializer)
        requested = _now()
        with tf.control_dependencies([requested]):
            batch = batches.get_next()
        with tf.control_dependencies(list(batch.values())):
            arrived = _now()
        monitor.waited = arrived - requested
        # The model starts only after the clock is read, so its time does not count as waiting.
        with tf.control_dependencies([arrived]):
            return {name: tf.identity(value) for name, value in batch.items()}

    return timed_input_fn


def _now() -> tf.Tensor:
    """Returns the clock in seconds; `tf.timestamp` fails in a deterministic run."""
    return tf.numpy_function(time.perf_counter, [], tf.float64)


def _stop_together(where: str) -> None:
    """Raises `signals.Stopped` on all workers at this point if any of them received a signal."""
    noted = [number for number in exchange.all_gather_objects(signals.deferred()) if number]
    if noted:
        signals.acknowledge()
        raise signals.Stopped(noted[0], where, by_all_workers=True)


def user_message(error: tf.errors.OpError, folder: str, step: int) -> str | None:
    """Returns a message that explains TensorFlow's error to the user; None for unknown errors."""
    message = error.message
    if NOT_FINITE in message:
        return (
            f"the loss or its gradients are NaN or infinite at step {step}; the weights were not "
            "updated with them, so all checkpoints are good; try a lower --learning_rate or a "
            "longer warm-up in another --output_dir"
        )
    for reason in _CANNOT_WRITE:
        if reason in message:
            return (
                f"{folder}: cannot write a checkpoint or a curve ({reason}); make room and "
                "run the same command again to resume"
            )
    # More than "OOM", because TensorFlow adds a hint with that word whenever a resource runs out.
    if "OOM when allocating" in message:
        return "the device is out of memory; try a lower --train_batch_size"
    if isinstance(error, tf.errors.DataLossError):
        match = re.search(r".*checksum.*", message, re.IGNORECASE)
        cause = match.group() if match else first_line(message)
        newest = newest_checkpoint(folder)
        return f"{newest[1] if newest else '--init_checkpoint'} is damaged ({cause}); " + (
            "remove it to resume from the previous one" if newest else "download it again"
        )
    return None


def make_deterministic() -> None:
    """Restricts TensorFlow to operations whose results are the same bit for bit every time."""
    tf2.config.experimental.enable_op_determinism()
