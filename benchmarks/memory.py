"""Measures the resident memory of a SQuAD training with and without --gradient_checkpointing.

  make bench NAME=memory FLAGS="[--batch_size 4] [--seq_length 384] ..."

Each training runs in a separate process on the CPU, with random weights, for one step of two
accumulated batches; later steps need no more memory. The table has the peak and the estimate of
`albert check`. Without checkpointing, ALBERT-xxlarge needs more memory than many machines have; a
training that is estimated to exceed the memory is not run. `--layers` makes the model smaller.

With --table nothing is trained: the same estimate gives the largest batches that fit into cards.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections.abc import Callable

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.

# ruff: isort: split
import numpy as np
import tensorflow.compat.v1 as tf

from albert import modeling
from albert.devices.memory_use import peak_host_memory
from albert.optimization import OptimizerOptions
from albert.prediction.model import ModelOptions
from albert.preflight.memory import cpu_memory, estimate_memory, format_bytes, host_memory
from albert.tasks.squad.head import make_v1_head
from albert.training.model_fn import make_model_fn
from benchmarks.parts.harness import ROOT, give, new_parser, run_again
from benchmarks.parts.step import make_batch, training_step

_SIZES = ("base", "large", "xlarge", "xxlarge")
_CARDS = (16, 32)  # GB


def main() -> None:
    """Starts the trainings and prints the table, or runs one of them."""
    flags = parse_flags()
    if flags.checkpointing is not None:
        give(train(flags))
        return
    if flags.table:
        print_table(flags)
        return
    print(f"{'gradient checkpointing':<24}{'peak':>10}{'estimate':>10}{'ratio':>8}{'seconds':>9}")
    for checkpointing in (True, False):
        found = run_again("memory", f"--checkpointing={int(checkpointing)}")
        peak, estimate = found["peak"], found["estimate"]
        row = f"{'with' if checkpointing else 'without':<24}"
        row += f"{format_bytes(peak) if peak else 'not run':>10}{format_bytes(estimate):>10}"
        print(row + (f"{estimate / peak:>8.2f}{found['seconds']:>9.0f}" if peak else ""))


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--config", default="configs/albert_xxlarge_v2.json")
    parser.add_argument("--batch_size", type=int, default=4)
    parser.add_argument("--seq_length", type=int, default=384)
    parser.add_argument("--layers", type=int, help="instead of the configuration's")
    parser.add_argument("--accumulation", type=int, default=2, help="batches per step")
    parser.add_argument("--optimizer", default="adamw")
    parser.add_argument(
        "--table", action="store_true", help="print the largest batches that fit into cards"
    )
    parser.add_argument("--checkpointing", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def print_table(flags: argparse.Namespace) -> None:
    """Prints the largest batches of every ALBERT in cards, without and with checkpointing."""
    cards = "".join(f" {gb} GB | {gb} GB, checkpointing |" for gb in _CARDS)
    print(f"| ALBERT |{cards}\n|---|{'---|' * 2 * len(_CARDS)}")
    for size in _SIZES:
        flags.config = f"configs/albert_{size}_v2.json"
        needs = [functools.cache(functools.partial(need, flags, way)) for way in (False, True)]
        found = [largest_batch(gb * 10**9, needed) for gb in _CARDS for needed in needs]
        print(f"| {size} |{''.join(f' {number} |' for number in found)}", flush=True)


def need(flags: argparse.Namespace, checkpointing: bool, batch_size: int) -> int:
    """Returns the bytes that a step needs on a card."""
    with tf.Graph().as_default():
        step, _ = make_step(flags, checkpointing, batch_size)
        return estimate_memory(step)["in all"]


def largest_batch(memory: int, needed: Callable[[int], int]) -> int:
    """Returns the largest batch that needs no more than `memory`; 0 for none."""
    size = 64
    # Newton's method: each additional example needs about the same memory, or slightly more.
    while more := (memory - needed(size)) // (needed(size + 1) - needed(size)):
        size += more
        if size < 1:
            return 0
    return size


def train(flags: argparse.Namespace) -> dict:
    """Runs a step; returns estimated bytes, peak bytes, and seconds of the second batch.

    Nothing is run, and there is no peak, if the estimate exceeds the memory.
    """
    tf.logging.set_verbosity(tf.logging.ERROR)
    with tf.Graph().as_default():
        step, feed = make_step(flags, bool(flags.checkpointing), flags.batch_size)
        parts = estimate_memory(step)
        estimate = peak_host_memory() + cpu_memory(parts)
        found = {"estimate": estimate, "peak": None}
        there = host_memory()
        if there and estimate > there.size:
            return found
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            for _ in range(2):
                start = time.perf_counter()
                session.run(step, feed)
    return {**found, "peak": peak_host_memory(), "seconds": time.perf_counter() - start}


def make_step(
    flags: argparse.Namespace, checkpointing: bool, batch_size: int
) -> tuple[tf.Operation, dict[tf.Tensor, np.ndarray]]:
    """Returns a batch's part of a training step in the current graph, and what to feed."""
    config = modeling.AlbertConfig.from_json_file(os.path.join(ROOT, flags.config))
    config.num_hidden_layers = flags.layers or config.num_hidden_layers
    optimizer = OptimizerOptions(
        5e-5, 100, 10, optimizer=flags.optimizer, gradient_accumulation_steps=flags.accumulation
    )
    model_fn = make_model_fn(
        config,
        make_v1_head(mask_padding_in_loss=True),
        ModelOptions(optimizer, gradient_checkpointing=checkpointing),
    )
    tf.set_random_seed(1)
    batch = make_batch(config, batch_size, flags.seq_length)
    return training_step(model_fn, batch)


if __name__ == "__main__":
    main()
