"""Models for ONNX Runtime: ways to make them faster before they are loaded.

A model's name is that of its source, with "-int8" for weights in eight bits:

  model     the file of `albert convert --to=onnx`
  fused     the same after `onnxruntime.transformers.optimizer`
  pytorch   the export of `torch.onnx`, after the same optimizer, which only here finds attention
"""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Sequence

import onnx

from benchmarks.parts.program import ONNX, TRANSFORMERS

_INT8 = "-int8"
_OPSET = 17


def write_variants(model: str, names: Sequence[str]) -> None:
    """Writes models from the converted ones.

    Args:
      model: a folder with the models of `transformers` and of `albert convert`.
      names: of the models, see above.
    """
    # Both tools advise on each call.
    logging.getLogger().setLevel(logging.ERROR)
    for name in names:
        base = name.removesuffix(_INT8)
        path = os.path.join(model, ONNX, f"{base}.onnx")
        if not os.path.exists(path):
            {"fused": _write_fused, "pytorch": _write_pytorch}[base](model, path)
        if name != base:
            _write_int8(path, os.path.join(model, ONNX, f"{name}.onnx"))


def _write_int8(source: str, target: str) -> None:
    from onnxruntime.quantization import quantize_dynamic

    # The operators of the optimizer are unknown to ONNX, which therefore cannot infer their types.
    quantize_dynamic(source, target, extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})


def _write_fused(model: str, target: str) -> None:
    _fuse(model, os.path.join(model, ONNX, "model.onnx"), target)


def _write_pytorch(model: str, target: str) -> None:
    import torch
    from transformers import AutoModelForQuestionAnswering

    # The optimizer knows the operators of this attention.
    folder = os.path.join(model, TRANSFORMERS)
    loaded = AutoModelForQuestionAnswering.from_pretrained(folder, attn_implementation="eager")
    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    outputs = ["start_logits", "end_logits"]
    loaded.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            loaded,
            (dict.fromkeys(inputs, torch.ones(2, 16, dtype=torch.long)),),
            target,
            input_names=inputs,
            output_names=outputs,
            dynamic_axes={name: {0: "batch", 1: "sequence"} for name in (*inputs, *outputs)},
            opset_version=_OPSET,
            dynamo=False,
        )
    _fuse(model, target, target)


def _fuse(model: str, source: str, target: str) -> None:
    from onnxruntime.transformers.optimizer import optimize_model

    with open(os.path.join(model, TRANSFORMERS, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    heads, size = config["num_attention_heads"], config["hidden_size"]
    optimized = optimize_model(source, "bert", num_heads=heads, hidden_size=size, opt_level=0)
    optimized.save_model_to_file(target)
