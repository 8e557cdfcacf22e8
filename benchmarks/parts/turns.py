"""Turns of programs on the same batches, and a table of what they measure.

Each turn has different batches. All programs first work on them while their shapes are new, then
again: the shapes are known, as after some hundred steps of a training. The programs alternate, so
that other load affects all of them. A further process times a large matrix product in every turn.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from albert.devices import machine
from benchmarks.parts import flags as common
from benchmarks.parts.batches import write_batches
from benchmarks.parts.flags import Flags
from benchmarks.parts.harness import ROOT, Table, ratios_of, spread

OURS, _PRODUCT = "this project", "product"
_TITLES = ("new shapes", "known shapes", "of peak", "memory", "ours/it, new", "ours/it, known")
_SETTINGS = ("work", "config", "model", "batches_file", "matrix_size", "device", "batch_size")


class Program(NamedTuple):
    """A kind of program that takes turns, with its settings and variables, and whether its products
    have the type that is measured."""

    kind: str
    options: Mapping[str, Any] = {}
    environment: Mapping[str, str] = {}
    peak: bool = True


class Measurement(NamedTuple):
    """Examples per second of each turn, while shapes are new and when they have occurred before;
    the losses of all steps, and the peak in gigabytes."""

    new: list[float]
    known: list[float]
    losses: list[float]
    memory: float


def parse(text: str, work: str, source: str, turns: int, /, **flags: Any) -> Flags:
    """Returns the flags of a benchmark in turns, its own and the common ones, and with them `work`,
    "training" or "prediction"; `source` is the name in `FILES` of the questions."""
    flags |= {"rows": None, "batches": 3, "turns": turns, "batch_size": 8, "config": common.BASE}
    flags |= {"max_seq_length": common.MAX_SEQ_LENGTH, "matrix_size": 4096, "device": "cpu"}
    flags |= {"torch_python": sys.executable}
    parsed = common.parse(text, None, (source, "spm_model_file"), **flags)
    parsed.work, parsed.config = work, os.path.abspath(parsed.config)
    known = ["float32", "bfloat16", *(["tf32"] if parsed.device == "gpu" else [])]
    parsed.dtypes = common.choose(parsed.rows or ",".join(known), known, "row")
    has_bfloat16, why = machine.find_processor().bfloat16()
    if parsed.device == "cpu" and not has_bfloat16 and "bfloat16" in parsed.dtypes:
        print(f"without the row in bfloat16: {why or 'the instructions are not known'}")
        parsed.dtypes.remove("bfloat16")
    return parsed


def command_of(program: Program, dtype: str, flags: Flags, output: str = "") -> list:
    """Returns the command of a program."""
    settings = {name: getattr(flags, name) for name in _SETTINGS}
    settings |= {"kind": program.kind, "options": program.options, "dtype": dtype, "output": output}
    settings["dropout"] = getattr(flags, "dropout", 0.0)
    python = flags.torch_python if program.kind in ("transformers", "compiled") else sys.executable
    return [python, "-m", "benchmarks.parts.program", json.dumps(settings)]


def prepare(flags: Flags, folder: str, *onnx: str) -> None:
    """Writes the weights, with some models for ONNX Runtime, and the batches to a folder."""
    from benchmarks.parts.this_project import write_models

    flags.batches_file = os.path.join(folder, "batches.npz")
    write_batches(flags.batches_file, flags.work == "training", flags)
    flags.model = os.path.join(folder, "model")
    write_models(flags.model, flags.config, onnx)


def take_turns(
    programs: Mapping[str, Program], dtype: str, flags: Flags
) -> tuple[dict[str, Measurement], float]:
    """Lets programs take turns, in their order; returns their measurements, and the operations per
    second of the matrix product."""
    programs = {**programs, _PRODUCT: Program(_PRODUCT)}
    measured: dict[str, list[dict]] = {name: [] for name in programs}
    with contextlib.ExitStack() as stack:
        turns = {
            name: stack.enter_context(_process(program, dtype, flags))
            for name, program in programs.items()
        }
        for number in range(flags.turns):
            for _ in ("new", "known"):
                for name, process in turns.items():
                    print(number, file=process.stdin, flush=True)
                    measured[name].append(_read(process))
    peak = max(one["rate"] for one in measured.pop(_PRODUCT))
    examples, results = flags.batch_size * flags.batches, {}
    for name, passes in measured.items():
        speeds = [examples / one["seconds"] for one in passes]
        losses = [loss for one in passes for loss in one["losses"]]
        results[name] = Measurement(speeds[::2], speeds[1::2], losses, passes[-1]["memory"])
    return results, peak


@contextlib.contextmanager
def _process(program: Program, dtype: str, flags: Flags) -> Iterator[subprocess.Popen[str]]:
    """Starts a program, and waits until it is ready: it must not disturb the others."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command, env = command_of(program, dtype, flags), {**os.environ, **program.environment}
    with subprocess.Popen(command, cwd=ROOT, env=env, **pipes) as process:
        try:
            _read(process)
            yield process
        finally:
            process.stdin.close()


def _read(process: subprocess.Popen) -> dict:
    if not (line := process.stdout.readline()):
        raise ChildProcessError(f"a program ended with code {process.wait()}, see above")
    return json.loads(line)


def print_rows(
    dtype: str,
    programs: Mapping[str, Program],
    measured: Mapping[str, Measurement],
    peak: float,
    flags: Flags,
) -> None:
    """Prints the programs' measurements: medians of the turns, and the smallest and largest."""
    with np.load(flags.batches_file) as file:
        tokens = file["input_mask"].sum(axis=1)[file["order"]].sum() / file["order"].size
    work = matrix_work(flags.config, flags.work) * tokens
    table = Table(*_TITLES, name_width=max(map(len, measured)) + 2, width=24)
    ours = measured[OURS]
    for name, result in measured.items():
        share = f"{work * statistics.median(result.known) / peak:.0%}"
        ratios = ratios_of(ours.new, result.new), ratios_of(ours.known, result.known)
        table.row(
            name,
            *(spread(result.new), spread(result.known), share if programs[name].peak else "-"),
            *(f"{result.memory:.2f} GB", *(map(spread, ratios) if name != OURS else ())),
        )
    print(
        f"{flags.work} in {dtype}, batches of {flags.batch_size}; peak of a matrix product: "
        f"{peak / 1e9:.0f} GFLOP/s; {tokens:.0f} tokens an example\n",
        flush=True,
    )


def matrix_work(config_file: str, work: str) -> float:
    """Returns the operations of the layers' matrix products for one token."""
    with open(config_file, encoding="utf-8") as file:
        config = json.load(file)
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    layer = 2.0 * (4 * hidden * hidden + 2 * hidden * wide)
    mapping = 2.0 * config.get("embedding_size", 0) * hidden
    forward = config["num_hidden_layers"] * layer + mapping
    return forward * (3 if work == "training" else 1)
