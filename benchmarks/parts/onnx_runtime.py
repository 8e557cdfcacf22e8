"""ONNX Runtime as a program of `benchmarks.parts.program`, for prediction on the CPU.

A model's name is that of its source, with "-int8" for weights in eight bits:

  model     the file of `albert convert --to=onnx`
  fused     the same after `onnxruntime.transformers.optimizer`
  pytorch   the export of `torch.onnx`, after the same optimizer, which only here finds attention
"""

import argparse
import json
import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime

from benchmarks.parts.harness import peak_memory
from benchmarks.parts.program import (
    ONNX,
    SEQUENCES,
    TRANSFORMERS,
    Batch,
    Functions,
    in_streams,
    streams_of,
)

_NAMES = ("input_ids", "attention_mask", "token_type_ids")
_INT8 = "-int8"


def load(settings: argparse.Namespace) -> Functions:
    """Returns the functions of ONNX Runtime for the model that `options` name."""
    path = os.path.join(settings.model, ONNX, f"{settings.options['model']}.onnx")
    streams, threads = streams_of(settings)
    session = open_session(path, {"threads": threads, **settings.options})
    return in_streams(lambda batch: predict(session, batch), streams), peak_memory


def open_session(path: str, options: Mapping[str, Any]) -> onnxruntime.InferenceSession:
    """Loads a model on the CPU.

    Options are `threads` (default: one per core), `parallel` (operators run at the same time),
    `level` of optimization (default: ALL), `spins` (whether threads wait actively, by default), and
    `bound` (a core for each thread).
    """
    cores = sorted(os.sched_getaffinity(0))
    threads = options.get("threads", len(cores))
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 3
    levels = onnxruntime.GraphOptimizationLevel
    settings.graph_optimization_level = getattr(levels, f"ORT_ENABLE_{options.get('level', 'ALL')}")
    if options.get("parallel"):
        settings.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    spins = str(int(options.get("spins", True)))
    settings.add_session_config_entry("session.intra_op.allow_spinning", spins)
    if options.get("bound") and threads > 1:
        # Numbers begin at 1; the calling thread, the first one, is bound separately.
        others = ";".join(str(core + 1) for core in cores[1:threads])
        settings.add_session_config_entry("session.intra_op_thread_affinities", others)
    return onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])


def predict(session: onnxruntime.InferenceSession, batch: Batch) -> list[np.ndarray]:
    """Returns all scores."""
    feed = {name: batch[key].astype(np.int64) for name, key in zip(_NAMES, SEQUENCES, strict=True)}
    return session.run(None, feed)


def write_variants(model: str, names: Sequence[str]) -> None:
    """Writes models with these names to a folder with the models of `albert convert`."""
    import onnx
    from onnxruntime.quantization import quantize_dynamic

    # The tools advise on each call.
    logging.getLogger().setLevel(logging.ERROR)
    for name in names:
        base = name.removesuffix(_INT8)
        paths = [os.path.join(model, ONNX, f"{kind}.onnx") for kind in ("model", base, name)]
        first, path, target = paths
        if not os.path.exists(path):
            if base == "pytorch":
                _write_export(model, path)
            _fuse(model, path if base == "pytorch" else first, path)
        if name != base:
            # The optimizer's operators are unknown to ONNX, which cannot infer their types.
            types = {"DefaultTensorType": onnx.TensorProto.FLOAT}
            quantize_dynamic(path, target, extra_options=types)


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


def _fuse(model: str, source: str, target: str) -> None:
    from onnxruntime.transformers.optimizer import optimize_model

    with open(os.path.join(model, TRANSFORMERS, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    sizes = {"num_heads": config["num_attention_heads"], "hidden_size": config["hidden_size"]}
    optimize_model(source, "bert", **sizes, opt_level=0).save_model_to_file(target)
