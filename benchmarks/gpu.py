"""Measures a machine with GPUs, and writes a report for `docs/results.md`.

  make bench NAME=gpu FLAGS="[--data FOLDER] ..."

The report has the demo's time and score; training and prediction of SQuAD with ALBERT-base in every
precision, next to `transformers` on the same GPU, with the memory; and two workers on two GPUs. A
part that fails is a line of the report with its last message, and the others still run. Without
--data, the generated paragraphs are short. --device=cpu tries the
command without a GPU, and --quick makes everything small.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.
from albert.core.version import VERSION
from albert.devices import host
from benchmarks.parts import data
from benchmarks.parts.harness import ROOT, new_parser

_QUICK_TRAIN = (
    "--batches=1",
    "--turns=1",
    "--matrix_size=512",
    "--max_seq_length=128",
    "--batch_size=2",
)
_QUICK_SCALING = ("--batch_size=1", "--seq_length=32", "--steps=1", "--rounds=1")
_OF_GPU = ("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
_OURS = "this project"
# Benchmarks, their columns for `transformers`, and flags: prediction needs no other peers.
_WORK = {
    "training": ("train", ("padded", "dynamic"), ()),
    "prediction": ("predict", ("", "transformers"), ("--peers=transformers",)),
}


def main() -> None:
    """Runs all parts and writes the report."""
    flags = parse_flags()
    with tempfile.TemporaryDirectory() as folder:
        lines = [*machine(flags)]
        for part in (demo, squad, workers):
            for line in part(flags, folder):
                print(line, flush=True)
                lines.append(line)
    with open(flags.report, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    print(f"\nwrote {flags.report}")


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--report", default="gpu-report.md", help="file to write")
    parser.add_argument("--device", choices=["cpu", "gpu"], default="gpu")
    parser.add_argument("--batch_size", type=int, default=32, help="examples in a batch of SQuAD")
    data.add_flag(parser, "train_file", "predict_file", "spm_model_file")
    parser.add_argument(
        "--torch_python", default=sys.executable, help="the Python that has torch and transformers"
    )
    parser.add_argument("--quick", action="store_true", help="small models, to try the command")
    return parser.parse_args()


def machine(flags: argparse.Namespace) -> Iterator[str]:
    """Yields the title, the machine and the versions."""
    torch = "import torch, transformers; print(torch.__version__, transformers.__version__)"
    found = subprocess.run([flags.torch_python, "-c", torch], capture_output=True, text=True)
    torch_version, transformers_version = (found.stdout.split() or ["none", "none"])[:2]
    import tensorflow as tf2

    yield f"# {platform.node()}: version {VERSION} on {flags.device.upper()}"
    yield ""
    yield from (f"- GPU: {line}" for line in host.run_tool(_OF_GPU).splitlines())
    yield f"- processor: {host.find_processor()}, {len(os.sched_getaffinity(0))} cores"
    yield (
        f"- Python {platform.python_version()}, TensorFlow {tf2.__version__}, torch "
        f"{torch_version}, transformers {transformers_version}"
    )
    yield f"- command: `python -m benchmarks.gpu {' '.join(sys.argv[1:])}`"


def demo(flags: argparse.Namespace, folder: str) -> Iterator[str]:
    """Yields the time and the score of the demo."""
    yield from ("", "## Demo", "")
    module = ("tests.readme.small_demo",) if flags.quick else ("albert", "demo")
    began = time.monotonic()
    # The demo takes the best device that it finds.
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if flags.device == "cpu" else {}
    failure = run("-m", *module, f"--output_dir={folder}", environment=hidden)
    if failure:
        yield f"failed: {failure}"
        return
    with open(os.path.join(folder, "run-1", "eval_results.json"), encoding="utf-8") as file:
        score = json.load(file)["f1"]
    yield f"{time.monotonic() - began:.0f} s, F1 {score:.2f}"


def squad(flags: argparse.Namespace, folder: str) -> Iterator[str]:
    """Yields a table of training and prediction in every precision."""
    yield from ("", "## SQuAD with ALBERT-base", "")
    yield (
        "Examples per second with known shapes, and peak memory of the device. In brackets, how "
        "many times as fast as `transformers` this project is."
    )
    yield from ("", "| | batch | this project | `transformers`, padded | padded to the batch |")
    yield "|---|---|---|---|---|"
    options = [f"--device={flags.device}", f"--torch_python={flags.torch_python}"]
    options += [f"--data={flags.data}"] if flags.data else []
    options += (
        [*_QUICK_TRAIN, "--batch_size=2"] if flags.quick else [f"--batch_size={flags.batch_size}"]
    )
    precisions = ("float32", "bfloat16", *(["tf32"] if flags.device == "gpu" else []))
    for work, dtype in itertools.product(_WORK, precisions):
        yield squad_row(work, dtype, options, folder)


def squad_row(work: str, dtype: str, options: Sequence[str], folder: str) -> str:
    """Returns a row of the table; without `transformers` if that fails."""
    name = f"{work}/{dtype}"
    path = os.path.join(folder, f"{work}-{dtype}.json")
    benchmark, columns, flags = _WORK[work]
    module = ("-m", f"benchmarks.{benchmark}")
    command = (*module, f"--rows={dtype}", f"--json={path}", *options, *flags)
    failure = run(*command)
    without = run(*command, "--peers=") if failure and not os.path.exists(path) else ""
    if not os.path.exists(path):
        return f"| {name} | | {without or failure or 'not measured'} | | |"
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    ours = found["programs"][_OURS]
    cells = [f"{ours['rate']:.1f}, {ours['memory']:.1f} GB"]
    for program in columns:
        of = found["programs"].get(program)
        ratio = f" ({ours['rate'] / of['rate']:.1f})" if of else ""
        lacks = "failed" if program else "not measured"
        cells.append(f"{of['rate']:.1f}{ratio}, {of['memory']:.1f} GB" if of else lacks)
    note = f": {failure}" if failure else ""
    return f"| {name}{note} | {found['batch']} | {' | '.join(cells)} |"


def workers(flags: argparse.Namespace, folder: str) -> Iterator[str]:
    """Yields the speed of two workers next to one."""
    yield from ("", "## Two workers", "")
    path = os.path.join(folder, "workers.json")
    options = [f"--device={flags.device}", f"--json={path}"]
    options += [*_QUICK_SCALING] if flags.quick else []
    failure = run("-m", "benchmarks.scaling", *options)
    if failure:
        yield f"not measured: {failure}"
        return
    with open(path, encoding="utf-8") as file:
        rates = json.load(file)
    yield from ("| | examples/s |", "|---|---|")
    yield from (f"| {name} | {rate:.2f} |" for name, rate in rates.items())


def run(*arguments: str, environment: dict[str, str] | None = None) -> str:
    """Runs a Python command and shows its output; returns its last line if it fails, else ""."""
    print(f"\n$ python {' '.join(arguments)}", flush=True)
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    last = ""
    for line in process.stdout or ():
        print(line, end="", flush=True)
        last = line.strip() or last
    return (last or f"exit code {process.returncode}") if process.wait() else ""


if __name__ == "__main__":
    main()
