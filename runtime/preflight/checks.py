"""What `check_setup.py` says of every job: variables, steps, the output folder, memory."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from typing import Protocol

import tensorflow.compat.v1 as tf

from runtime import distributed, estimators
from runtime.bf16 import configuration
from runtime.bf16.conversion import plan_model
from runtime.bf16.rules import Plan
from runtime.checkpoints.checkpoint_files import list_checkpoints
from runtime.checkpoints.initialization import Initialized
from runtime.devices import device
from runtime.files import check_can_be_written, existing_folder
from runtime.flags import (
    FLAGS,
    global_batch_size,
    is_by_oversight_from_scratch,
    kept_in_training,
)
from runtime.preflight.available_memory import Memory, card_memory, host_memory
from runtime.preflight.report import Report
from runtime.preflight.step_memory import (
    checkpoint_bytes,
    estimate_memory,
    format_bytes,
    on_the_cpu,
)
from runtime.training.hooks import peak_memory_gb
from runtime.training.run import check_output_dir, checkpoint_to_use

_TRAIN = estimators.ModeKeys.TRAIN
_SMALLER = (
    "lower --train_batch_size and raise --gradient_accumulation_steps for it, or shorten "
    "--max_seq_length"
)


class Job(Protocol):
    """A job under the flags.

    It is made with the report that is to describe it, and raises a `UserError` then if its model,
    tokenizer and flags do not fit each other.
    """

    def model_fn(self) -> Callable:
        """Returns the model; to be called after `describe_data`."""

    def compare(self, variables: Sequence[tf.Variable]) -> Initialized:
        """Compares the model's variables with those of --init_checkpoint.

        Raises:
          UserError: they do not fit.
        """

    def batch(self, as_read: bool) -> dict[str, tf.TensorSpec]:
        """Returns the shapes and types of what the model takes in a training step, by name.

        Args:
          as_read: leave a length open that is known when a batch is read; else the longest.
        """

    def describe_data(self, report: Report) -> None:
        """Adds rows about the input files and whether their features will be reused.

        Raises:
          UserError: a file cannot be used.
        """

    def steps(self) -> tuple[int, int] | None:
        """Returns the steps of the training and of its warmup; None without a training."""

    def training_settings(self) -> dict:
        """Returns what the trained weights are a function of, by flag name."""


def training_step(job: Job) -> tf.Operation:
    """Returns a training step of one worker in a graph of its own, with batches of full length."""
    with tf.Graph().as_default():
        tf.set_random_seed(FLAGS.seed)
        features = _placeholders(job.batch(as_read=False))
        return job.model_fn()(features=features, labels=None, mode=_TRAIN, params={}).train_op


def _placeholders(specs: dict[str, tf.TensorSpec]) -> dict[str, tf.Tensor]:
    return {name: tf.placeholder(spec.dtype, spec.shape) for name, spec in specs.items()}


def describe_variables(report: Report, job: Job, graph: tf.Graph) -> None:
    """Adds rows about the model's variables and which of them the initial checkpoint has."""
    variables = graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)
    count = sum(variable.shape.num_elements() for variable in variables)
    report.add("parameters", f"{count / 1e6:.2f} million in {len(variables)} variables")
    if not FLAGS.init_checkpoint:
        warns = job.steps() is not None and is_by_oversight_from_scratch()
        advice = "; give --init_checkpoint, or --from_scratch if it is to" if warns else ""
        report.add("checkpoint", f"none: training starts from random weights{advice}", warns=warns)
        return
    found = job.compare(variables)
    report.add("checkpoint", found.checkpoint)
    report.add("variables taken", len(found.taken))
    report.add("variables that are new", ", ".join(found.new) or "none")
    report.add("variables not used", ", ".join(found.unused) or "none")


def describe_training(report: Report, job: Job) -> None:
    """Adds rows about the steps, and checks that the folders are free and can be written.

    Raises:
      UserError: a folder cannot be written or holds another run, or there is no model to use.
    """
    check_can_be_written(FLAGS.output_dir, "--output_dir")
    if FLAGS.export_dir:
        check_can_be_written(FLAGS.export_dir, "--export_dir")
    steps = job.steps()
    if steps is None:
        report.add("steps", "none: nothing is trained")
        if distributed.is_chief():
            report.add("model", checkpoint_to_use())
        return
    num_steps, num_warmup_steps = steps
    report.add(
        "steps",
        f"{num_steps}, {num_warmup_steps} of them warmup, {global_batch_size()} examples each",
    )
    if distributed.is_chief():
        check_output_dir(job.training_settings())
        done = max(_checkpoints_there(), default=0)
        report.add("output folder", f"this run, at step {done}" if done else "free")


def _checkpoints_there() -> dict[int, str]:
    """Returns the checkpoints of the run that would be resumed, by step."""
    return {} if FLAGS.overwrite_output_dir else list_checkpoints(FLAGS.output_dir)


def describe_checkpoints(report: Report, job: Job, graph: tf.Graph) -> None:
    """Adds a row that says how many checkpoints are to be written and whether there is room."""
    steps = job.steps()
    if steps is None or not distributed.is_chief():
        return
    number = -(-steps[0] // FLAGS.save_checkpoints_steps)
    number = max(number - len(_checkpoints_there()), 0)
    if kept_in_training():
        # One goes when the next is written.
        number = min(number, kept_in_training() + 1)
    size, free = checkpoint_bytes(graph), shutil.disk_usage(existing_folder(FLAGS.output_dir)).free
    report.add(
        "checkpoints",
        f"{number} of {format_bytes(size)}; {format_bytes(free)} are free in --output_dir",
        ok=number * size < free,
    )


def describe_memory(
    report: Report, job: Job, step: tf.Operation, device_memory: int | None
) -> None:
    """Adds rows about the memory of a training step, and whether card and host have so much.

    Args:
      report: gets the rows.
      job: the job.
      step: from `training_step`.
      device_memory: bytes of a device elsewhere, with which the step is compared instead.
    """
    if job.steps() is None:
        return
    parts = estimate_memory(step)
    for item, size in parts.items():
        report.add(item, format_bytes(size))
    needed = parts["in all"]
    if device_memory:
        _compare(report, "device memory", needed, Memory(device_memory, "given by --device_memory"))
        return
    on_cpu = device.kind() == "cpu"
    if not on_cpu:
        _compare(report, "device memory", needed, card_memory(device.kind()))
    # The others on this host would only repeat it.
    if distributed.local_rank() == 0:
        workers, program = distributed.local_size(), int(peak_memory_gb() * 1e9)
        report.add("program and libraries", format_bytes(program))
        own = program + (on_the_cpu(parts) if on_cpu else checkpoint_bytes(step.graph))
        there = host_memory(in_use=workers * program)
        of_workers = f" by {workers} workers" if workers > 1 else ""
        _compare(report, "host memory", workers * own, there, of_workers)


def _compare(report: Report, item: str, needed: int, there: Memory | None, whose: str = "") -> None:
    """Adds a row that says whether there is as much memory as is needed."""
    if there is None:
        report.add(item, "not known; --device_memory=32GB compares with 32 GB")
        return
    found = f"{format_bytes(needed)} needed{whose}, {format_bytes(there.size)} {there.source}"
    fits = needed <= there.size
    advice = "" if fits else f"; {_SMALLER}"
    report.add(item, found + advice, ok=fits)


def describe_bf16(report: Report, job: Job, wanted: bool) -> Plan | None:
    """Adds rows about the bfloat16 configuration and what it makes of a training step.

    Args:
      report: gets the rows.
      job: the job.
      wanted: plan with the shipped configuration if the environment has none.

    Returns:
      The plan, if there is one.

    Raises:
      UserError: the configuration is no good.
    """
    config = configuration.from_environment()
    if config is None:
        report.add(configuration.VARIABLE, "not set: the run is in float32")
        config = configuration.load("1") if wanted else None
    if config is None:
        return None
    with tf.Graph().as_default():
        tf.set_random_seed(FLAGS.seed)
        tf.train.get_or_create_global_step()
        features = _placeholders(job.batch(as_read=True))
        planned = plan_model(
            job.model_fn(), features, None, estimators.ModeKeys.TRAIN, {}, config, device.kind()
        )
    report.add("plan", planned.plan.summary())
    return planned.plan
