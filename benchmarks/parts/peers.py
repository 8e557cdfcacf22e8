"""The peers of this project in prediction, with their settings: the fastest, and all that were
tried."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import Any

from benchmarks.parts.turns import Program

# A core for each thread of OpenMP, which PyTorch uses.
_BOUND = {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}

# The compiler may then rearrange weights, and use products of oneDNN.
_FROZEN = {"TORCHINDUCTOR_FREEZING": "1"}


def _torch(environment: dict[str, str] | None = None, **options: Any) -> Program:
    kind = "compiled" if options.get("compile") else "transformers"
    return Program(kind, options, environment or {})


def _onnx(model: str, **options: Any) -> Program:
    # No type of ours has eight bits.
    return Program("onnxruntime", {"model": model, **options}, peak=not model.endswith("int8"))


_TRANSFORMERS = _torch(attention="sdpa")
_COMPILED = _torch(_FROZEN, attention="sdpa", compile=True)
_FLOAT32, _INT8 = _onnx("model"), _onnx("pytorch-int8")
# By the type of products of this project.
PEERS = {
    "float32": {
        "transformers": _TRANSFORMERS,
        "transformers, compiled": _COMPILED,
        "ONNX Runtime": _FLOAT32,
        "ONNX Runtime, int8": _INT8,
    },
    "bfloat16": {
        "transformers": _TRANSFORMERS,
        "transformers, compiled": _COMPILED,
        "ONNX Runtime, int8": _INT8,
    },
    "tf32": {"transformers": _TRANSFORMERS},
}
KINDS = ("transformers", "compiled", "onnxruntime")
ONNX_MODELS = (_FLOAT32.options["model"], _INT8.options["model"])

_OF_TORCH = {
    "attention: sdpa": _torch(attention="sdpa"),
    "attention: eager": _torch(attention="eager"),
    "sdpa, torch.compile(dynamic=True)": _torch(attention="sdpa", compile=True),
    "the same with frozen weights": _torch(_FROZEN, attention="sdpa", compile=True),
    "sdpa, threads bound to cores": _torch(_BOUND, attention="sdpa"),
    "sdpa, denormal numbers count as zero": _torch(attention="sdpa", flush_denormal=True),
}
_OF_MODELS = {
    "model of albert convert": "model",
    "the same, fused by its optimizer": "fused",
    "export of torch.onnx, fused by its optimizer": "pytorch",
}
_OF_ONNX = {
    **{name: _onnx(model) for name, model in _OF_MODELS.items()},
    "model of albert convert, default threads": _onnx("model", threads=0),
    "..., parallel execution": _onnx("model", parallel=True),
    "..., extended optimizations": _onnx("model", level="extended"),
    "..., basic optimizations": _onnx("model", level="basic"),
    "..., threads do not spin": _onnx("model", spins=False),
    "..., threads bound to cores": _onnx("model", bound=True),
    "..., denormal numbers count as zero": _onnx("model", flush_denormal=True),
}
_OF_INT8 = {name: _onnx(f"{model}-int8") for name, model in _OF_MODELS.items()}
SETTINGS = {
    "float32": {
        "transformers": _OF_TORCH,
        "ONNX Runtime": _OF_ONNX,
        "ONNX Runtime, int8": _OF_INT8,
    },
    "bfloat16": {
        "transformers, bfloat16": {
            **_OF_TORCH,
            "sdpa, weights in bfloat16": _torch(attention="sdpa", converts=True),
        }
    },
    "tf32": {},
}


def kinds_of(flags: argparse.Namespace) -> list[str]:
    """Returns the kinds of --peers that this machine can run."""
    kinds = [kind for kind in flags.peers.split(",") if kind]
    if unknown := set(kinds) - set(KINDS):
        sys.exit(f"benchmark: error: no peer is {', '.join(unknown)}; there are {', '.join(KINDS)}")
    if flags.device == "gpu":
        return [kind for kind in kinds if kind == "transformers"]
    if "compiled" in kinds and not shutil.which(os.environ.get("CXX", "g++")):
        print("without torch.compile: it needs a C++ compiler")
        kinds.remove("compiled")
    return kinds
