"""Measures a machine with GPUs, and writes a report for `docs/results.md`.

The report has the demo's time and score; training and prediction of SQuAD with ALBERT-base in every
precision, next to `transformers` on the same GPU, with the memory; and two workers on two GPUs. A
part that fails is a line of the report with its last message, and the others still run. Without
--data, the generated paragraphs are short. --device=cpu tries the command without a GPU, and
--quick makes everything small.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import tensorflow as tf2

from albert.core.version import VERSION
from albert.devices import host
from benchmarks.parts.flags import Flags, parse
from benchmarks.parts.harness import ROOT

_QUICK_SQUAD = ["--batches=1", "--turns=1", "--matrix_size=512", "--max_seq_length=128"]
_QUICK_SCALING = ["--batch_size=1", "--seq_length=32", "--steps=1", "--rounds=1"]
_OF_GPU = ("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")


def main() -> None:
    """Runs all parts and writes the report."""
    strings = {"report": "gpu-report.md", "device": "gpu", "torch_python": sys.executable}
    flags = parse(__doc__, **strings, data=None, batch_size=32, quick=False)
    lines = []
    for part in (machine, demo, squad, workers):
        for line in part(flags):
            print(line, flush=True)
            lines.append(line)
    with open(flags.report, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    print(f"\nwrote {flags.report}")


def machine(flags: Flags) -> Iterator[str]:
    """Yields the title, the machine and the versions."""
    torch = "import torch, transformers; print(torch.__version__, transformers.__version__)"
    done = subprocess.run([flags.torch_python, "-c", torch], capture_output=True, text=True)
    torch_version, transformers_version = (done.stdout.split() or ["none", "none"])[:2]
    yield from (f"# {platform.node()}: version {VERSION} on {flags.device.upper()}", "")
    yield from (f"- GPU: {line}" for line in host.run_tool(_OF_GPU).splitlines())
    yield f"- processor: {host.find_processor()}, {len(os.sched_getaffinity(0))} cores"
    versions = f"- Python {platform.python_version()}, TensorFlow {tf2.__version__}"
    yield f"{versions}, torch {torch_version}, transformers {transformers_version}"
    yield f"- command: `python -m benchmarks.gpu {' '.join(sys.argv[1:])}`"


def demo(flags: Flags) -> Iterator[str]:
    """Yields the time and the score of the demo."""
    yield from ("", "## Demo", "")
    module = "tests.readme.small_demo" if flags.quick else "albert"
    # The demo takes the best device that it finds.
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if flags.device == "cpu" else {}
    with tempfile.TemporaryDirectory() as folder:
        words = *([] if flags.quick else ["demo"]), f"--output_dir={folder}"
        began = time.monotonic()
        failure = run(module, *words, environment=hidden)[1]
        seconds, results = time.monotonic() - began, {}
        if not failure:
            with open(f"{folder}/run-1/eval_results.json", encoding="utf-8") as file:
                results = json.load(file)
    yield failure or f"{seconds:.0f} s, F1 {results['f1']:.2f}"


def squad(flags: Flags) -> Iterator[str]:
    """Yields tables of training and prediction in every precision."""
    yield from ("", "## SQuAD with ALBERT-base", "")
    options = [f"--device={flags.device}", f"--torch_python={flags.torch_python}"]
    options += [f"--data={flags.data}"] if flags.data else []
    options += _QUICK_SQUAD if flags.quick else []
    options.append(f"--batch_size={2 if flags.quick else flags.batch_size}")
    for work in ("train", "predict"):
        for dtype in ("float32", "bfloat16", *(["tf32"] if flags.device == "gpu" else [])):
            command = f"benchmarks.{work}", f"--rows={dtype}", *options
            output, failure = run(*command, "--peers=transformers")
            yield from block(output, failure)
            if failure:
                yield from block(*run(*command, "--peers="))


def workers(flags: Flags) -> Iterator[str]:
    """Yields the speed of two workers next to one."""
    yield from ("", "## Two workers", "")
    quick = _QUICK_SCALING if flags.quick else []
    yield from block(*run("benchmarks.scaling", f"--device={flags.device}", *quick))


def block(output: list[str], failure: str) -> list[str]:
    """Returns the output of a benchmark, or only why it failed."""
    return [*([failure] if failure else ["```", *output, "```"]), ""]


def run(module: str, *arguments: str, environment: dict | None = None) -> tuple[list[str], str]:
    """Runs a module and shows its output; returns the lines of its standard output, and why it
    failed, with its last line, or ""."""
    print(f"\n$ {sys.executable} -m {module} {' '.join(arguments)}", flush=True)
    command = [sys.executable, "-m", module, *arguments]
    env = {**os.environ, **(environment or {})}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
    failure = f"`{module} {' '.join(arguments)}` failed: {last}" if done.returncode else ""
    return done.stdout.strip().splitlines(), failure


if __name__ == "__main__":
    main()
