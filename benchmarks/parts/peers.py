"""The peers of this project in prediction, with the fastest of the settings that were tried."""

import os
import shutil

from benchmarks.parts.flags import Flags, choose
from benchmarks.parts.program import INT8
from benchmarks.parts.turns import Program

KINDS = ("transformers", "compiled", "onnxruntime", "openvino")
# The compiler may then rearrange weights, and use products of oneDNN.
_FROZEN = {"TORCHINDUCTOR_FREEZING": "1"}
# Two batches at a time, as in this project.
_STREAMS = {"streams": 2}
_OPENVINO = {"OpenVINO": Program("openvino", {"model": "model", **_STREAMS})}
_TRANSFORMERS = {"transformers": Program("transformers", _STREAMS)}
_TORCH = {**_TRANSFORMERS, "transformers, compiled": Program("compiled", _STREAMS, _FROZEN)}
_ONNX = {"ONNX Runtime": Program("onnxruntime", {"model": "model", **_STREAMS})}
# No type of ours has eight bits.
_INT8 = {"ONNX Runtime, int8": Program("onnxruntime", {"model": INT8, **_STREAMS}, peak=False)}
# By the type of products of this project.
PEERS = {
    "float32": {**_TORCH, **_ONNX, **_OPENVINO, **_INT8},
    "bfloat16": {**_TORCH, **_OPENVINO, **_INT8},
    "tf32": _TRANSFORMERS,
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


def peers_of(dtype: str, kinds: list[str]) -> tuple[dict[str, Program], set[str]]:
    """Returns the peers of some kinds in a type of products, and the models of ONNX they need."""
    chosen = {name: peer for name, peer in PEERS[dtype].items() if peer.kind in kinds}
    return chosen, {o["model"] for p in chosen.values() if "model" in (o := p.options)}
