"""Checks a job before a card is booked: its files, flags, memory and duration."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import list_checkpoints, resolve_checkpoint
from albert.checkpoints.initialization import compare_with_checkpoint
from albert.checkpoints.model_folder import TOKENIZERS
from albert.core import estimators
from albert.core.errors import FlagError
from albert.core.files import check_can_be_written, check_readable, existing_folder
from albert.devices import device, machine
from albert.devices.memory_use import peak_host_memory
from albert.distributed import collectives, exchange
from albert.optimization import TrainStep
from albert.precision import configuration
from albert.precision.conversion import plan_model
from albert.precision.rules import ConversionPlan
from albert.prediction.engine import precision_list
from albert.preflight.duration import describe_duration, measure
from albert.preflight.memory import (
    Memory,
    checkpoint_bytes,
    cpu_memory,
    estimate_memory,
    format_bytes,
    host_memory,
)
from albert.preflight.report import Report, Row, describe_environment, print_reports
from albert.preflight.settings import CheckSettings
from albert.records import TEST, TRAIN
from albert.records.batches import Data, batch_spec
from albert.settings.run_settings import RunSettings
from albert.training import output_folder, plan
from albert.training.job import configure_habana
from albert.training.prediction import check_labels
from albert.training.prepared import contents_of, in_buckets
from albert.training.task import (
    CONFIG_FLAGS,
    Task,
    TextTask,
    create_task,
    precision_config,
    requested_inputs,
)
from albert.training.task_model import model_fn

_SMALLER = (
    "pass --gradient_checkpointing, lower --train_batch_size and raise "
    "--gradient_accumulation_steps instead, or lower --max_seq_length"
)
# The last line of the report, for success and for failure.
_JOB_VERDICTS = "the job can run", "the job would fail"
_MACHINE_VERDICTS = "the machine is ready; add a job's flags to check the job", "jobs would fail"


def check(
    task_class: type[Task] | None, job: RunSettings, settings: CheckSettings, name: str
) -> bool:
    """Prints the report of all ranks; returns whether the run would succeed.

    Without a task, it checks only the machine. The only run of a job has the name "".
    """
    report = Report()
    if settings.estimate and settings.device_memory:
        raise FlagError(
            "--estimate measures this machine, and --device_memory is for another one; pass one of "
            "them"
        )
    if name:
        # TensorFlow has run for the runs before this one, so no process may be forked.
        job = job.replaced(preprocess_workers=1)
        with report.section("run"):
            report.add("name", name)
    describe_environment(report, job)
    verdicts, checked = _JOB_VERDICTS if task_class else _MACHINE_VERDICTS, None
    if task_class:
        describe_files(report, task_class, job)
        checked = describe_input(report, task_class, job, settings) if report.ok else None
    connect(report, checked)
    planned = describe_graph(report, checked, settings) if checked and report.ok else None
    # Either all ranks take part in the measurement, or none.
    if settings.estimate and all(exchange.all_gather_objects(report.ok)) and checked:
        trained, data = checked.trained, checked.data
        paces = measure(trained, data)
        if collectives.is_chief():
            describe_duration(report, trained.settings, checked.steps, data, paces)
    by_rank = [[Row(*row) for row in rows] for rows in exchange.all_gather_objects(report.rows)]
    shown = planned if settings.bf16 else None
    # The objects of several runs are one line each.
    return print_reports(by_rank, shown, verdicts, settings.json, indent=None if name else 2)


def describe_input(
    report: Report, task_class: type[Task], job: RunSettings, settings: CheckSettings
) -> Checked | None:
    """Adds the task's files and its output folder; returns the task, or None if it has errors."""
    with report.section("model"):
        checked = Checked(create_task(task_class, job))
        task = checked.task
        compared = ", as in the configuration" if task.tokenizer else ""
        report.add("vocabulary", f"{task.config.vocab_size} pieces{compared}")
        if task.labels:
            names = ", ".join(map(str, task.labels))
            is_number = task.labels == [None]
            report.add("labels", "none: the task predicts a number" if is_number else names)
        report.next_section("data")
        describe_data(report, checked)
        report.next_section("training")
        describe_training(report, checked)
        if settings.estimate and report.ok:
            # Before the workers are connected, because this may fork.
            for name in task.splits:
                checked.data[name] = in_buckets(checked.split(name).prepared(), task.settings)
        return checked
    return None


def connect(report: Report, checked: Checked | None) -> None:
    """Loads the device, waits for the other ranks and compares settings, as the job would."""
    with report.section("job"):
        if checked:
            configure_habana(checked.task)
        device.prepare()
    collectives.connect(on_cpu=device.kind() == "cpu")
    if all(exchange.all_gather_objects(report.ok)) and checked:
        with report.section("job"):
            for split in checked.task.splits:
                shared = output_folder.split_settings(checked.task, split, checked.contents(split))
                exchange.check_equal_on_all_workers(shared)
            if checked.steps:
                checked.resume_from(exchange.broadcast_object(checked.begun))
    with report.section("programs"):
        report.add("Horovod", collectives.description())


def describe_graph(
    report: Report, checked: Checked, settings: CheckSettings
) -> ConversionPlan | None:
    """Adds the graph of a training step; returns its precision plan if it is requested."""
    with report.section("model"):
        step = training_step(checked)
        describe_variables(report, checked, step.op.graph)
        report.next_section("memory")
        describe_memory(report, checked, step, settings.device_memory)
        report.next_section("training")
        describe_checkpoints(report, checked, step)
        report.next_section("precision")
        return describe_precision(report, checked, uses_shipped=settings.bf16)
    return None


class Checked:
    """A task with its flags, and the results of the checks so far.

    Attributes:
      trained: the task with the flags of its training, which differ if a run is resumed.
      begun: the settings of the run to resume; set on rank 0 first, and by `resume_from` on the
        other ranks.
      contents: `contents_of` the task, which reads each file only once.
      split: `Task.split`, which reads the examples only once.
      steps: the steps of the training; None without one.
      data: the data of each split, if batches of it are timed.
    """

    def __init__(self, task: Task):
        self.task = self.trained = task
        self.begun: Mapping[str, Any] = {}
        self.contents = functools.cache(functools.partial(contents_of, task))
        self.split = functools.cache(task.split)
        self.num_examples = 0
        self.steps: plan.Steps | None = None
        self.data = dict[str, Data]()

    def model_fn(self) -> Callable:
        """Returns the `model_fn` of the training."""
        return model_fn(self.trained, self.steps or plan.Steps(1, 0))

    def resume_from(self, begun: Mapping[str, Any]) -> None:
        """Makes later checks assume that rank 0's run is resumed; see `original_batch_settings`."""
        self.begun = begun
        self.trained = self.task.with_settings(
            plan.rescale_to_current_workers(self.task.settings, begun)
        )
        self.steps = self.trained.steps(self.num_examples)

    def batch(self, trims: bool) -> dict[str, tf.Tensor]:
        """Returns placeholders for a batch, with an unknown length if batches are truncated."""
        settings = self.task.settings
        size, buckets = settings.train_batch_size, settings.length_buckets or ()
        specs = batch_spec(self.task.model_inputs(), size, trims, buckets)
        return {name: tf.placeholder(spec.dtype, spec.shape) for name, spec in specs.items()}


def describe_files(report: Report, task_class: type[Task], settings: RunSettings) -> None:
    """Adds a row for each missing flag or file, without reading the files."""
    with report.section("job"):
        settings.require(*task_class.required)
    names = [CONFIG_FLAGS[0]]
    if issubclass(task_class, TextTask):
        names += [*TOKENIZERS, *dict.fromkeys(requested_inputs(task_class, settings).values())]
    for name in names:
        path = getattr(settings, name)
        with report.section("files"):
            # Reading it shows later whether it should be a folder.
            if path and not os.path.isdir(path):
                check_readable(path, f"--{name}")
    with report.section("files"):
        if settings.init_checkpoint:
            resolve_checkpoint(settings.init_checkpoint)
    for name in ("output_dir", "export_dir"):
        with report.section("files"):
            if path := getattr(settings, name):
                check_can_be_written(path, f"--{name}")


def training_step(checked: Checked) -> TrainStep:
    """Builds a training step of one worker in a separate graph, with batches of full length."""
    with tf.Graph().as_default():
        tf.set_random_seed(checked.task.settings.seed)
        features = checked.batch(trims=False)
        spec = checked.model_fn()(
            features=features, labels=None, mode=estimators.ModeKeys.TRAIN, params={}
        )
    return estimators.graph_parts(spec)


def describe_variables(report: Report, checked: Checked, graph: tf.Graph) -> None:
    """Adds rows about the model's variables, and which of them the initial checkpoint has."""
    settings = checked.task.settings
    variables = graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)
    millions = sum(variable.shape.num_elements() for variable in variables) / 1e6
    report.add("parameters", f"{millions:.2f} million in {len(variables)} variables")
    if not settings.init_checkpoint:
        warns = checked.steps is not None and output_folder.init_checkpoint_forgotten(settings)
        advice = "; pass --init_checkpoint, or --from_scratch if you want that" if warns else ""
        report.add("checkpoint", f"none: training starts from random weights{advice}", warns=warns)
        return
    task, shapes = checked.task, {v.op.name: v.shape.as_list() for v in variables}
    new_head = settings.new_head if TRAIN in task.splits else False
    start = compare_with_checkpoint(
        shapes, settings.init_checkpoint, task.num_groups, new_head, task.labels
    )
    report.add("checkpoint", start.checkpoint)
    report.add("variables taken", len(start.taken))
    report.add("variables that are new", ", ".join(start.new) or "none")
    report.add("variables not used", ", ".join(start.unused) or "none")
    for warning in start.warnings():
        report.add("start", warning, warns=True)


def describe_data(report: Report, checked: Checked) -> None:
    """Adds rows on input files and the reuse of features; raises a `UserError` for a bad file."""
    task = checked.task
    for name in task.splits:
        part = checked.split(name)
        for item, value in part.describe():
            report.add(item, value)
        if name == TRAIN:
            checked.num_examples = part.num_examples()
            checked.steps = task.steps(checked.num_examples)
        if name == TEST and collectives.is_chief():
            check_labels(task)


def describe_training(report: Report, checked: Checked) -> None:
    """Adds rows about steps and folders; raises a `UserError` if the job cannot use a folder."""
    settings = checked.task.settings
    if collectives.is_chief():
        output_folder.check_weights(checked.task)
    if checked.steps is None:
        report.add("steps", "none: nothing is trained")
        if collectives.is_chief():
            report.add("model", output_folder.checkpoint_to_use(settings))
        return
    if not collectives.is_chief():
        return
    begun = plan.original_batch_settings(
        settings, output_folder.training_settings(checked.task, checked.contents(TRAIN))
    )
    output_folder.check_output_dir(settings, begun)
    checked.resume_from(begun)
    num_steps, num_warmup_steps, *_ = checked.steps
    size = plan.global_batch_size(checked.trained.settings)
    report.add("steps", f"{num_steps}, {num_warmup_steps} of them warmup, {size} examples each")
    report.add("epochs", f"{num_steps * size / checked.num_examples:.2f}")
    done = max(_checkpoints_there(settings), default=0)
    report.add("output folder", f"this run, at step {done}" if done else "free")


def _checkpoints_there(settings: RunSettings) -> dict[int, str]:
    """Returns the checkpoints of the run to resume, by step."""
    return {} if settings.overwrite_output_dir else list_checkpoints(settings.output_dir)


def describe_checkpoints(report: Report, checked: Checked, step: TrainStep) -> None:
    """Adds a row with the number of checkpoints to write, and whether they fit on the disk."""
    settings = checked.task.settings
    if checked.steps is None or not collectives.is_chief():
        return
    number = -(-checked.steps.num_train_steps // settings.save_checkpoints_steps)
    number = max(number - len(_checkpoints_there(settings)), 0)
    if kept := plan.checkpoints_to_keep(settings):
        # The oldest one is removed after the next is written.
        number = min(number, kept + 1)
    folder = existing_folder(settings.output_dir)
    size, free = checkpoint_bytes(step.op.graph, step.sharded), shutil.disk_usage(folder).free
    report.add(
        "checkpoints",
        f"{number} of {format_bytes(size)}; {format_bytes(free)} are free in --output_dir",
        ok=number * size < free,
    )


def describe_memory(
    report: Report, checked: Checked, step: TrainStep, device_memory: int | None
) -> None:
    """Adds rows about a step's memory, and whether the host and the card have it.

    `device_memory` has the bytes of a card on another machine, to compare with instead.
    """
    if checked.steps is None:
        return
    parts = estimate_memory(step.op, step.sharded)
    for item, size in parts.items():
        report.add(item, format_bytes(size))
    needed = parts["in all"]
    if device_memory:
        _compare(report, "device memory", needed, Memory(device_memory, "given by --device_memory"))
        return
    on_cpu = device.kind() == "cpu"
    if not on_cpu:
        _compare(report, "device memory", needed, None)
    # The other workers on this host would only repeat the row.
    if collectives.local_rank() == 0:
        workers, program = collectives.local_size(), peak_host_memory()
        report.add("program and libraries", format_bytes(program))
        saved = checkpoint_bytes(step.op.graph, step.sharded)
        own = program + (cpu_memory(parts) if on_cpu else saved)
        there = host_memory(in_use=workers * program)
        whose = f" by {workers} workers" if workers > 1 else ""
        _compare(report, "host memory", workers * own, there, whose)


def _compare(report: Report, item: str, needed: int, there: Memory | None, whose: str = "") -> None:
    """Adds a row that compares the needed memory with the available memory."""
    if there is None:
        report.add(item, "unknown; pass --device_memory=32GB to compare with 32 GB")
        return
    comparison = f"{format_bytes(needed)} needed{whose}, {format_bytes(there.size)} {there.source}"
    fits = needed <= there.size
    advice = "" if fits else f"; {_SMALLER}"
    report.add(item, comparison + advice, ok=fits)


def describe_precision(
    report: Report, checked: Checked, uses_shipped: bool
) -> ConversionPlan | None:
    """Adds rows about a step's precision; returns its operations in low precision, if configured.

    Without a configuration, `uses_shipped` takes the shipped one.
    """
    task = checked.task
    config = precision_config(task)
    describe_choice(report, config)
    if config is None and uses_shipped:
        config = configuration.load("1", precision_list(task.config))
    if config is None:
        return None
    with tf.Graph().as_default():
        tf.set_random_seed(task.settings.seed)
        tf.train.get_or_create_global_step()
        features = checked.batch(task.trims)
        *_, planned = plan_model(
            checked.model_fn(), features, None, estimators.ModeKeys.TRAIN, {}, config, device.kind()
        )
    report.add("plan", planned.summary())
    return planned


def describe_choice(report: Report, config: configuration.PrecisionConfig | None) -> None:
    """Adds a row with the run's data type, and whether another one is faster on the CPU."""
    chosen, source = (config.dtype.name, f", by {config.source}") if config else ("float32", "")
    processor = machine.find_processor()
    fastest, why = processor.fastest()
    is_known = device.kind() == "cpu" and processor.instructions is not None
    advice = f"; {fastest} is faster: {why}" if is_known and chosen != fastest else ""
    report.add("type", chosen + source + advice, warns=bool(advice and config))
