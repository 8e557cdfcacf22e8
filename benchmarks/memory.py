"""Measures the resident memory of a SQuAD training with and without --gradient_checkpointing.

  make bench-memory      or: python -m benchmarks.memory [--batch_size 4] [--seq_length 384] ...

Each training is a process of its own with random weights, on the CPU, that runs one step of two
accumulated batches; later steps take no more. Beside its peak is the estimate of check_setup.py.
Without checkpointing ALBERT-xxlarge takes more memory than many machines have: what is estimated
to take more than there is is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

import runtime  # noqa: F401  First: it silences what TensorFlow prints when it is imported.

# ruff: isort: split
import tensorflow.compat.v1 as tf

import modeling
from benchmarks.step import make_batch
from encoder_task import ModelOptions, make_model_fn
from optimization import OptimizerOptions
from runtime import estimators
from runtime.preflight.available_memory import host_memory
from runtime.preflight.step_memory import estimate_memory, format_bytes, on_the_cpu
from runtime.training.hooks import peak_memory_gb
from squad.head import make_v1_head

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_BATCHES = 2


def main() -> None:
    """Starts the trainings and prints the table, or is one of them."""
    flags = parse_flags()
    if flags.checkpointing is not None:
        print(json.dumps(train(flags)))
        return
    print(f"{'gradient checkpointing':<24}{'peak':>10}{'estimate':>10}{'ratio':>8}{'seconds':>9}")
    for checkpointing in (True, False):
        found = run_training(checkpointing)
        peak, estimate = found["peak"], found["estimate"]
        row = f"{'with' if checkpointing else 'without':<24}"
        row += f"{format_bytes(peak) if peak else 'not run':>10}{format_bytes(estimate):>10}"
        print(row + (f"{estimate / peak:>8.2f}{found['seconds']:>9.0f}" if peak else ""))


def parse_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--config", default="configs/albert_xxlarge_v2.json")
    parser.add_argument("--batch_size", type=int, default=4)
    parser.add_argument("--seq_length", type=int, default=384)
    parser.add_argument("--optimizer", default="adamw")
    parser.add_argument("--checkpointing", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def run_training(checkpointing: bool) -> dict:
    """Returns what `train` returns in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.memory", f"--checkpointing={int(checkpointing)}"]
    result = subprocess.run(
        [*command, *sys.argv[1:]], cwd=_ROOT, stdout=subprocess.PIPE, check=True, text=True
    )
    return json.loads(result.stdout.splitlines()[-1])


def train(flags: argparse.Namespace) -> dict:
    """Runs a step; returns bytes estimated, bytes at the peak, and seconds of the second batch.

    There is no peak, and nothing is run, where there is less memory than is estimated.
    """
    config = modeling.AlbertConfig.from_json_file(flags.config)
    batch = make_batch(config, flags.batch_size, flags.seq_length)
    options = ModelOptions(
        OptimizerOptions(
            5e-5, 100, 10, optimizer=flags.optimizer, gradient_accumulation_steps=_BATCHES
        ),
        gradient_checkpointing=bool(flags.checkpointing),
    )
    model_fn = make_model_fn(config, make_v1_head(mask_padding_in_loss=True), options)
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        features = {name: tf.placeholder(tf.int32, v.shape, name) for name, v in batch.items()}
        step = model_fn(features, None, estimators.ModeKeys.TRAIN, {}).train_op
        parts = estimate_memory(step)
        estimate = int(peak_memory_gb() * 1e9) + on_the_cpu(parts)
        found = {"estimate": estimate, "peak": None}
        there = host_memory()
        if there and estimate > there.size:
            return found
        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            for _ in range(_BATCHES):
                start = time.perf_counter()
                session.run(step, {features[name]: value for name, value in batch.items()})
    return {**found, "peak": int(peak_memory_gb() * 1e9), "seconds": time.perf_counter() - start}


if __name__ == "__main__":
    main()
