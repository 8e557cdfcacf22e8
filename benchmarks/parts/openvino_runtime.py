"""OpenVINO as a program of `benchmarks.parts.program`, for prediction on the CPU, with the file of
`albert convert --to=onnx`."""

import argparse
import os
import threading

import numpy as np
import openvino

from benchmarks.parts.harness import peak_memory
from benchmarks.parts.program import ONNX, SEQUENCES, Batch, Functions, in_streams, streams_of

_NAMES = ("input_ids", "attention_mask", "token_type_ids")
_TYPES = {"float32": "f32", "bfloat16": "bf16"}


def load(settings: argparse.Namespace) -> Functions:
    """Returns the functions of OpenVINO, which computes in the type of the measurement."""
    path = os.path.join(settings.model, ONNX, f"{settings.options['model']}.onnx")
    streams, _ = streams_of(settings)
    # See `albert/openvino/encoder.py`: two threads could wait for each other.
    _ = openvino.Tensor(np.zeros(1, np.float32)).data
    compiled, own = compile_model(path, settings.dtype, streams), threading.local()

    def begin() -> None:
        own.request = compiled.create_infer_request()

    return in_streams(lambda batch: predict(own.request, batch), streams, begin), peak_memory


def compile_model(path: str, dtype: str, streams: int = 1) -> openvino.CompiledModel:
    """Compiles a model for the CPU, with a thread for each core."""
    options = {
        "INFERENCE_PRECISION_HINT": _TYPES[dtype],
        "INFERENCE_NUM_THREADS": len(os.sched_getaffinity(0)),
        "NUM_STREAMS": streams,
        # Threads that are bound to cores were not faster.
        "ENABLE_CPU_PINNING": False,
    }
    return openvino.Core().compile_model(path, "CPU", options)


def predict(request: openvino.InferRequest, batch: Batch) -> list[np.ndarray]:
    """Returns all scores."""
    columns = zip(_NAMES, SEQUENCES, strict=True)
    results = request.infer({name: batch[key].astype(np.int64) for name, key in columns})
    return [values.copy() for values in results.values()]
