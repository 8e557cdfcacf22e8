"""ONNX Runtime as a program of `benchmarks.parts.program`, for prediction on the CPU.

Models are the file of `albert convert --to=onnx`, and one in eight bits, from the export of
`torch.onnx` after `onnxruntime.transformers.optimizer`, which only there finds attention.
"""

import argparse
import json
import logging
import os
import warnings

import numpy as np
import onnxruntime

from benchmarks.parts.harness import peak_memory
from benchmarks.parts.program import (
    INT8,
    ONNX,
    SEQUENCES,
    TRANSFORMERS,
    Batch,
    Functions,
    in_streams,
    streams_of,
)

_NAMES = ("input_ids", "attention_mask", "token_type_ids")


def load(settings: argparse.Namespace) -> Functions:
    """Returns the functions of ONNX Runtime for the model that `options` name."""
    path = os.path.join(settings.model, ONNX, f"{settings.options['model']}.onnx")
    streams, threads = streams_of(settings)
    session = open_session(path, threads)
    return in_streams(lambda batch: predict(session, batch), streams), peak_memory


def open_session(path: str, threads: int) -> onnxruntime.InferenceSession:
    """Loads a model on the CPU, for a number of threads."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 3
    return onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])


def predict(session: onnxruntime.InferenceSession, batch: Batch) -> list[np.ndarray]:
    """Returns all scores."""
    feed = {name: batch[key].astype(np.int64) for name, key in zip(_NAMES, SEQUENCES, strict=True)}
    return session.run(None, feed)


def write_int8(model: str) -> None:
    """Writes the model in eight bits to a folder with a model of `transformers`."""
    import onnx
    from onnxruntime.quantization import quantize_dynamic

    # The tools advise on each call.
    logging.getLogger().setLevel(logging.ERROR)
    path = os.path.join(model, ONNX, "pytorch.onnx")
    _write_export(model, path)
    _fuse(model, path)
    # The optimizer's operators are unknown to ONNX, which cannot infer their types.
    types = {"DefaultTensorType": onnx.TensorProto.FLOAT}
    quantize_dynamic(path, os.path.join(model, ONNX, f"{INT8}.onnx"), extra_options=types)


def _write_export(model: str, target: str) -> None:
    import torch
    from transformers import AutoModelForQuestionAnswering

    # The optimizer knows the operators of this attention.
    folder = os.path.join(model, TRANSFORMERS)
    loaded = AutoModelForQuestionAnswering.from_pretrained(folder, attn_implementation="eager")
    outputs = ["start_logits", "end_logits"]
    axes = {name: {0: "batch", 1: "sequence"} for name in (*_NAMES, *outputs)}
    options = {"input_names": list(_NAMES), "output_names": outputs, "dynamic_axes": axes}
    inputs = (dict.fromkeys(_NAMES, torch.ones(2, 16, dtype=torch.long)),)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(loaded.eval(), inputs, target, **options, opset_version=17, dynamo=False)


def _fuse(model: str, path: str) -> None:
    from onnxruntime.transformers.optimizer import optimize_model

    with open(os.path.join(model, TRANSFORMERS, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    sizes = {"num_heads": config["num_attention_heads"], "hidden_size": config["hidden_size"]}
    optimize_model(path, "bert", **sizes, opt_level=0).save_model_to_file(path)
