"""The peers of this project in prediction, with their settings: the fastest, and all that were
tried."""

import os
import shutil
from typing import Any

from benchmarks.parts.flags import Flags, choose
from benchmarks.parts.turns import Program

KINDS = ("transformers", "compiled", "onnxruntime", "openvino")
# The compiler may then rearrange weights, and use products of oneDNN.
_FROZEN = {"TORCHINDUCTOR_FREEZING": "1"}
# A core for each thread of OpenMP, which PyTorch uses.
_BOUND = {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}
# Two batches at a time, as in this project.
_STREAMS = {"streams": 2}


def _torch(environment: dict[str, str] | None = None, **options: Any) -> Program:
    kind = "compiled" if options.get("compile") else "transformers"
    return Program(kind, {"attention": "sdpa", **_STREAMS, **options}, environment or {})


def _onnx(model: str, **options: Any) -> Program:
    # No type of ours has eight bits.
    options = {"model": model, **_STREAMS, **options}
    return Program("onnxruntime", options, peak=not model.endswith("int8"))


_OPENVINO = {"OpenVINO": Program("openvino", {"model": "model", **_STREAMS})}
_TRANSFORMERS = {"transformers": _torch()}
_TORCH = {**_TRANSFORMERS, "transformers, compiled": _torch(_FROZEN, compile=True)}
_INT8 = {"ONNX Runtime, int8": _onnx("pytorch-int8")}
# By the type of products of this project.
PEERS = {
    "float32": {**_TORCH, "ONNX Runtime": _onnx("model"), **_OPENVINO, **_INT8},
    "bfloat16": {**_TORCH, **_OPENVINO, **_INT8},
    "tf32": _TRANSFORMERS,
}
_TORCH_SETTINGS = {
    "attention: sdpa": _torch(),
    "sdpa, one batch at a time": _torch(streams=1),
    "attention: eager": _torch(attention="eager"),
    "sdpa, torch.compile(dynamic=True)": _torch(compile=True),
    "the same with frozen weights": _torch(_FROZEN, compile=True),
    "sdpa, threads bound to cores": _torch(_BOUND, streams=1),
    "sdpa, denormal numbers count as zero": _torch(flush_denormal=True),
}
_MODELS = {
    "model of albert convert": "model",
    "the same, fused by its optimizer": "fused",
    "export of torch.onnx, fused by its optimizer": "pytorch",
}
_ONNX_SETTINGS = {
    **{name: _onnx(model) for name, model in _MODELS.items()},
    "..., one batch at a time": _onnx("model", streams=1),
    "..., parallel execution": _onnx("model", parallel=True, streams=1),
    "..., extended optimizations": _onnx("model", level="EXTENDED"),
    "..., basic optimizations": _onnx("model", level="BASIC"),
    "..., threads do not spin": _onnx("model", spins=False),
    "..., threads bound to cores": _onnx("model", bound=True, streams=1),
    **{f"int8: {name}": _onnx(f"{model}-int8") for name, model in _MODELS.items()},
}
SETTINGS = {
    "float32": {**_TORCH_SETTINGS, **_ONNX_SETTINGS},
    "bfloat16": {**_TORCH_SETTINGS, "sdpa, weights in bfloat16": _torch(converts=True)},
    "tf32": {},
}


def kinds_of(flags: Flags) -> list[str]:
    """Returns the kinds of --peers that this machine can run."""
    kinds = choose(flags.peers, KINDS, "peer")
    if flags.device == "gpu":
        return [kind for kind in kinds if kind == "transformers"]
    if "compiled" in kinds and not shutil.which(os.environ.get("CXX", "g++")):
        print("without torch.compile: it needs a C++ compiler")
        kinds.remove("compiled")
    return kinds


def peers_of(programs: dict[str, Program], kinds: list[str]) -> tuple[dict[str, Program], set[str]]:
    """Returns the programs of some kinds, and the models of ONNX that they need."""
    chosen = {name: program for name, program in programs.items() if program.kind in kinds}
    return chosen, {o["model"] for p in chosen.values() if "model" in (o := p.options)}
