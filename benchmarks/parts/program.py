"""The programs that `benchmarks.train` and `benchmarks.predict` time, each in a separate process.

The argument has the settings of `turns.command_of` as JSON. For each number of a turn on standard
input, a program works on the batches of this turn and prints their seconds, the losses and its
memory as a line of JSON. Before that, it works on two examples and prints an empty object. With
`output`, it predicts all features instead, long ones first, and writes the positions of the most
probable answers.

A peer predicts as many batches at a time, on equal shares of the CPU's cores, as `streams` of its
options says.
"""

import argparse
import importlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from benchmarks.parts.harness import seconds_of

Batch = dict[str, np.ndarray]
# A function that returns the results of batches, in order: the losses of training steps, or the
# scores of predictions.
Run = Callable[[Iterable[Batch]], Iterable[Any]]
# That, and a function that returns the peak memory in bytes, of the GPU or otherwise of the host.
Functions = tuple[Run, Callable[[], int]]
# Learning rate; small, so that random weights do not diverge.
RATE, EPSILON, DECAY = 1e-5, 1e-6, 0.01
# Files in the folder of a model.
BEST, TRANSFORMERS, ONNX = "model.ckpt-best", "transformers", "onnx"
# A model of ONNX with weights in eight bits.
INT8 = "int8"
SEQUENCES = ("input_ids", "input_mask", "segment_ids")
# A peer must not import TensorFlow.
_MODULES = {
    **{"transformers": "pytorch", "compiled": "pytorch"},
    **{"onnxruntime": "onnx_runtime", "openvino": "openvino_runtime"},
}


def main() -> None:
    """Runs one of the programs."""
    settings = argparse.Namespace(**json.loads(sys.argv[1]))
    # Libraries print to standard output, too.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    name = _MODULES.get(settings.kind, "this_project")
    module = importlib.import_module(f"benchmarks.parts.{name}")
    if settings.output:
        write_answers(module.load(settings)[0], settings)
        return
    is_product = settings.kind == "product"
    turn = module.product_turn(settings) if is_product else turns(*module.load(settings), settings)
    print("{}", file=output, flush=True)
    for line in sys.stdin:
        print(json.dumps(turn(int(line))), file=output, flush=True)


def streams_of(settings: argparse.Namespace) -> tuple[int, int]:
    """Returns the number of batches that are predicted at a time, and that of threads for each."""
    cores = len(os.sched_getaffinity(0))
    streams = min(cores, settings.options.get("streams", 1)) if settings.device == "cpu" else 1
    return streams, cores // streams


def in_streams(
    predict: Callable[[Batch], Any], streams: int, begin: Callable[[], Any] | None = None
) -> Run:
    """Returns a function that predicts batches in threads, in each of which `begin` runs first."""
    pool = ThreadPoolExecutor(streams, initializer=begin)
    return lambda batches: pool.map(predict, batches)


def turns(
    run: Run, memory: Callable[[], int], settings: argparse.Namespace
) -> Callable[[int], dict]:
    """Returns a function that takes a turn and returns its measurements."""
    records = read_features(settings)
    order = records.pop("order")
    # The first work of a process is slower with any shape. Two examples, because a compiler may
    # take a size of one for a constant.
    list(run([batch_of(records, order[0, 0, :2])]))

    def turn(number: int) -> dict:
        results: list = []
        batches = [batch_of(records, rows) for rows in order[number]]
        seconds = seconds_of(lambda: results.extend(run(batches)))
        losses = results if settings.work == "training" else []
        return {"seconds": seconds, "losses": losses, "memory": memory() / 1e9}

    return turn


def write_answers(predict: Run, settings: argparse.Namespace) -> None:
    """Predicts all features and writes their answers."""
    records, answers = read_features(settings), {}
    order = np.argsort(-records["input_mask"].sum(axis=1), kind="stable")
    size = settings.batch_size
    batches = [order[first : first + size] for first in range(0, len(order), size)]
    predicted = predict(batch_of(records, rows) for rows in batches)
    for rows, scores in zip(batches, predicted, strict=True):
        positions = (values.argmax(axis=1).tolist() for values in scores)
        for row, *answer in zip(rows.tolist(), *positions, strict=True):
            answers[row] = answer
    with open(settings.output, "w", encoding="utf-8") as file:
        json.dump(answers, file)


def read_features(settings: argparse.Namespace) -> Batch:
    """Returns the features, and the order of batches if any."""
    with np.load(settings.batches_file) as file:
        return dict(file)


def batch_of(records: Batch, rows: np.ndarray) -> Batch:
    """Returns a batch, trimmed to its longest row."""
    length = int(records["input_mask"][rows].sum(axis=1).max())
    return {
        name: values[rows, :length] if values.ndim == 2 else values[rows]
        for name, values in records.items()
    }


if __name__ == "__main__":
    main()
