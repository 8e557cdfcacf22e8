"""The programs that `benchmarks.train` and `benchmarks.predict` time, each in a process that waits.

For each number of a turn on standard input, a program works on the batches of this turn and prints
their seconds, the losses and its memory as a line of JSON. Before that, it works on two examples
and prints an empty object. `--program=make` writes the weights for all of them instead.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
import time
from collections.abc import Callable

import numpy as np

Batch = dict[str, np.ndarray]
# A training step or a prediction, and the peak memory in bytes, of the GPU or otherwise of the
# host.
Functions = tuple[Callable[[Batch], float], Callable[[], int]]
# Learning rate; small, so that random weights do not diverge.
RATE, EPSILON, DECAY = 1e-5, 1e-6, 0.01
# Files in the folder of a model.
BEST, TRANSFORMERS, ONNX = "model.ckpt-best", "transformers", "onnx"
SEQUENCES = ("input_ids", "input_mask", "segment_ids")
# Their modules; a peer must not import TensorFlow.
_MODULES = {
    "this project": "this_project",
    "padded": "pytorch",
    "dynamic": "pytorch",
    "transformers": "pytorch",
    "compiled": "pytorch",
    "onnxruntime": "onnx_runtime",
}


def main() -> None:
    """Makes the weights, or runs one of the programs until its standard input ends."""
    flags = parse_flags()
    if flags.program == "make":
        from benchmarks.parts import weights

        weights.write_models(flags)
        return
    # Libraries print to standard output, too.
    output = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def give(found: dict) -> None:
        print(json.dumps(found), file=output, flush=True)

    if flags.program == "product":
        from benchmarks.parts.this_project import matrix_product

        measure, turn = matrix_product(flags), None
    else:
        measure, turn = None, turns(flags)
    give({})
    for line in sys.stdin:
        give({"rate": fastest_product(measure, flags.matrix_size)} if measure else turn(int(line)))


def turns(flags: argparse.Namespace) -> Callable[[int], dict]:
    """Returns a function that takes a turn and returns its measurements."""
    step, peak_memory = functions(flags)
    with np.load(flags.batches) as file:
        records = {name: file[name] for name in file.files}
    order, cuts = records.pop("order"), flags.program != "padded"
    # The first work of a process is slower with any shape. Two examples, because a compiler may
    # take a size of one for a constant.
    step(batch_of(records, order[0, 0, :2], cuts))

    def turn(number: int) -> dict:
        seconds, losses = [], []
        for batch in [batch_of(records, rows, cuts) for rows in order[number]]:
            began = time.perf_counter()
            losses.append(step(batch))
            seconds.append(time.perf_counter() - began)
        losses = [] if flags.work == "prediction" else losses
        return {"seconds": seconds, "losses": losses, "memory": peak_memory() / 1e9}

    return turn


def functions(flags: argparse.Namespace) -> Functions:
    """Loads a program."""
    module = importlib.import_module(f"benchmarks.parts.{_MODULES[flags.program]}")
    return module.functions(flags)


def parse_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", choices=["make", "product", *_MODULES])
    parser.add_argument("--model", help="folder of the weights")
    parser.add_argument("--config", help="configuration of the model")
    parser.add_argument("--data", help="train, dev or mrpc")
    parser.add_argument("--batches", help="file of the features and batches")
    parser.add_argument("--work", help="training or prediction")
    parser.add_argument("--dtype", help="type of matrix products")
    parser.add_argument("--matrix_size", type=int, help="size of the timed matrix product")
    parser.add_argument("--device", help="cpu or gpu")
    parser.add_argument("--options", type=json.loads, default={}, help="settings of a peer")
    parser.add_argument(
        "--onnx", help="for make: models of ONNX to write, separated by commas", default=""
    )
    return parser.parse_args()


def batch_of(records: Batch, rows: np.ndarray, cuts: bool = True) -> Batch:
    """Returns a batch, trimmed to its longest row or not."""
    batch = {name: values[rows] for name, values in records.items()}
    if not cuts:
        return batch
    length = int(batch["input_mask"].sum(axis=1).max())
    return {
        name: values[:, :length] if values.ndim == 2 else values for name, values in batch.items()
    }


def fastest_product(product: Callable[[], object], size: int) -> float:
    """Returns the operations per second of a product of two square matrices, the best of three."""
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        product()
        seconds.append(time.perf_counter() - began)
    return 2.0 * size**3 / min(seconds)


def host_memory() -> int:
    return peak_memory(os.getpid())


def peak_memory(pid: int) -> int:
    """Returns the largest number of bytes that a process has had in memory, or 0 at its end.

    Unlike `getrusage`, this does not count the process that started it.
    """
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        found = re.search(r"^VmHWM:\s+(\d+) kB$", file.read(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


if __name__ == "__main__":
    main()
