"""ONNX Runtime as a program of `benchmarks.parts.program`, for prediction on the CPU."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime

from benchmarks.parts.program import ONNX, SEQUENCES, Batch, Functions, host_memory

_NAMES = ("input_ids", "attention_mask", "token_type_ids")
_LEVELS = {
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
}


def functions(flags: argparse.Namespace) -> Functions:
    """Returns the functions of ONNX Runtime."""
    session = load(flags)

    def step(batch: Batch) -> float:
        predict(session, batch)
        return 0.0

    return step, host_memory


def load(flags: argparse.Namespace) -> onnxruntime.InferenceSession:
    """Loads the model that `options` name, see `benchmarks.parts.onnx_models`."""
    path = os.path.join(flags.model, ONNX, f"{flags.options['model']}.onnx")
    return open_session(path, flags.options)


def open_session(path: str, options: Mapping[str, Any]) -> onnxruntime.InferenceSession:
    """Loads a model on the CPU.

    Args:
      path: the model.
      options: `threads` (default: one per core), `parallel` (operators run at the same time),
        `level` of optimization (default: all), `spins` (whether threads wait actively, by default),
        `flush_denormal` (whether tiny numbers count as zero), `bound` (a core for each thread).
    """
    cores = sorted(os.sched_getaffinity(0))
    threads = options.get("threads", len(cores))
    modes = onnxruntime.ExecutionMode
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 3
    settings.graph_optimization_level = _LEVELS[options.get("level", "all")]
    if options.get("parallel"):
        settings.execution_mode = modes.ORT_PARALLEL
    entries = {
        "session.intra_op.allow_spinning": options.get("spins", True),
        "session.set_denormal_as_zero": options.get("flush_denormal", False),
    }
    for name, value in entries.items():
        settings.add_session_config_entry(name, str(int(value)))
    if options.get("bound") and threads > 1:
        # Numbers begin at 1; the calling thread, the first one, is bound separately.
        others = ";".join(str(core + 1) for core in cores[1:threads])
        settings.add_session_config_entry("session.intra_op_thread_affinities", others)
    return onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])


def predict(session: onnxruntime.InferenceSession, batch: Batch) -> list[np.ndarray]:
    """Returns all scores."""
    feed = {name: batch[of].astype(np.int64) for name, of in zip(_NAMES, SEQUENCES, strict=True)}
    return session.run(None, feed)
