"""The speed and memory of prediction with each engine and precision; `albert check --measure`."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from albert.core.errors import UserError, reporting
from albert.core.log import LOG
from albert.devices import device, host, machine, memory_use
from albert.prediction.engine import has_openvino
from albert.prediction.session import AT_ONCE
from albert.preflight.duration import prediction_seconds
from albert.preflight.report import Report
from albert.records import TRAIN
from albert.settings.engines import OPENVINO, TENSORFLOW
from albert.settings.run_settings import RunSettings
from albert.training.prepared import requested_splits
from albert.training.task import Task

# The first batches also make the graph and the kernels.
_FIRST_BATCHES, _SECONDS = 2, 2.0


def describe_speed(report: Report, task: Task) -> None:
    """Adds a row for each engine and precision of this machine, measured on the job's own data."""
    with report.section("speed"):
        name = next((name for name in requested_splits(task) if name != TRAIN), None)
        if name is None:
            raise UserError("--measure needs a development set or a test set; add its flags")
        for engine, precision in ways():
            LOG.info("measuring %s in %s", engine, precision)
            settings = task.settings.replaced(engine=engine, precision=precision)
            # A separate process has only the memory of this engine.
            spawn = multiprocessing.get_context("spawn")
            with reporting("/dev/shm cannot be written"):
                executor = ProcessPoolExecutor(1, mp_context=spawn)
            with executor as pool:
                rate, memory = pool.submit(_measure, type(task), settings, name).result()
            report.add(f"{engine}, {precision}", f"{rate:.2f} examples/s, {memory / 1e9:.2f} GB")


def ways() -> Iterator[tuple[str, str]]:
    """Yields the engines that are installed, each with the precisions that this device has."""
    has_bfloat16 = device.kind() != "cpu" or machine.find_processor().bfloat16()[0]
    for engine in (TENSORFLOW, *([OPENVINO] if has_openvino() and device.kind() == "cpu" else [])):
        yield engine, "float32"
        if has_bfloat16:
            yield engine, "bfloat16"


def _is_enough(seconds: list[float]) -> bool:
    # Batches that are computed together may end together.
    return len(seconds) % AT_ONCE == 0 and sum(seconds[_FIRST_BATCHES:]) > _SECONDS


def _measure(task_class: type[Task], settings: RunSettings, name: str) -> tuple[float, int]:
    """Returns the examples per second of prediction, and the peak memory of this process."""
    device.choose(settings.device)
    device.prepare()
    host.limit_threads()
    with tempfile.TemporaryDirectory(prefix="albert-check-") as folder:
        task = task_class(settings.replaced(output_dir=folder))
        data, _ = task.split(name).sample(folder)
        seconds = prediction_seconds(task, data, _is_enough)
    later = seconds[_FIRST_BATCHES:] or seconds[-1:]
    return settings.predict_batch_size * len(later) / sum(later), memory_use.peak_host_memory()
