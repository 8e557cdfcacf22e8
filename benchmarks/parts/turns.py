"""Turns of programs on the same batches, and a table of what they measure.

Each turn has different batches. All programs first work on them while their shapes are new, then
again: the shapes are known, as after some hundred steps of a training. The programs alternate, so
that other load affects all of them. A further process times a large matrix product in every turn.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert.devices import host
from benchmarks.features import MAX_SEQ_LENGTH
from benchmarks.parts.batches import write_batches
from benchmarks.parts.harness import ROOT

OURS, _PRODUCT = "this project", "product"


class Program(NamedTuple):
    """A program that takes turns, with its settings.

    Attributes:
      kind: of the program, see `benchmarks.parts.program`.
      options: its settings.
      environment: variables for its process.
      peak: whether its products have the type of the row.
    """

    kind: str
    options: Mapping[str, Any] = {}
    environment: Mapping[str, str] = {}
    peak: bool = True


class Row(NamedTuple):
    """A row of the table.

    Attributes:
      work: "training" or "prediction".
      data: "train", "dev" (of SQuAD 1.1) or "mrpc".
      config: of the model, in `configs/`.
      dtype: of matrix products.
      batch_size: examples in a batch.
      wanted: required ratios to the speed of programs, by their names; for this project, the
        required fraction of the peak.
    """

    work: str
    data: str
    config: str
    dtype: str
    batch_size: int
    wanted: Mapping[str, float] = {}


class Measurement(NamedTuple):
    """The measurements of a program in a row: examples per second of each turn, and in total.

    Attributes:
      new: while shapes are new.
      known: when they have occurred before.
      losses: of all steps.
      memory: peak in gigabytes.
    """

    new: list[float]
    known: list[float]
    losses: list[float]
    memory: float


def add_flags(parser: argparse.ArgumentParser, batches: int, turns: int) -> None:
    """Adds the flags of a benchmark in turns, with its default numbers of batches and turns."""
    parser.add_argument("--batches", type=int, default=batches, help="batches per turn")
    parser.add_argument("--turns", type=int, default=turns, help="turns of each program")
    parser.add_argument(
        "--max_seq_length", type=int, default=MAX_SEQ_LENGTH, help="length of SQuAD's features"
    )
    parser.add_argument(
        "--matrix_size", type=int, default=4096, help="size of the large matrix product"
    )
    parser.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--batch_size", type=int, help="examples in a batch; default: the row's")
    parser.add_argument(
        "--torch_python", default=sys.executable, help="the Python that has torch and transformers"
    )
    parser.add_argument("--json", help="file for the figures, a line of JSON for each row")


def chosen(rows: Mapping[str, Row], flags: argparse.Namespace) -> dict[str, Row]:
    """Returns the rows of --rows that this machine can measure, with the wanted batch size."""
    names = flags.rows.split(",") if flags.rows else list(rows)
    if unknown := set(names) - set(rows):
        sys.exit(f"benchmark: error: no row is {', '.join(unknown)}; there are {', '.join(rows)}")
    has_bfloat16, why = host.find_processor().bfloat16()
    if flags.device == "cpu" and not has_bfloat16:
        print(f"without the rows in bfloat16: {why or 'the instructions are not known'}")
        names = [name for name in names if rows[name].dtype == "float32"]
    sizes = {name: flags.batch_size or rows[name].batch_size for name in names}
    return {name: rows[name]._replace(batch_size=sizes[name]) for name in names}


def prepare(
    row: Row, flags: argparse.Namespace, folder: str, onnx: Sequence[str] = ()
) -> tuple[str, str]:
    """Makes the weights and batches of a row in a folder, or finds them there; returns both paths.

    Args:
      row: a row.
      flags: those of the benchmark.
      folder: for the files.
      onnx: models of ONNX to write, see `benchmarks.parts.onnx_models`.
    """
    batches = os.path.join(folder, f"{row.data}-{row.batch_size}.npz")
    if not os.path.exists(batches):
        of_row = argparse.Namespace(**{**vars(flags), "batch_size": row.batch_size})
        write_batches(batches, row.data, row.work == "prediction", of_row)
    return write_model(row, folder, onnx), batches


def write_model(row: Row, folder: str, onnx: Sequence[str] = ()) -> str:
    """Makes the weights of a row in a folder, or finds them there; returns their folder."""
    model = os.path.join(folder, f"{os.path.basename(row.config)}-{row.data}")
    if not os.path.exists(model):
        given = {"model": model, "config": config_path(row), "data": row.data}
        command = program_command("make", **given, onnx=",".join(onnx))
        subprocess.run(command, cwd=ROOT, env=environment(), check=True)
    return model


def config_path(row: Row) -> str:
    return os.path.join(ROOT, "configs", row.config)


def program_command(kind: str, python: str = sys.executable, **arguments: object) -> list[str]:
    given = {"program": kind, **arguments}
    module = [python, "-m", "benchmarks.parts.program"]
    return [*module, *(f"--{flag}={value}" for flag, value in given.items())]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns the variables of this process, and some that make libraries silent."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "2", "TRANSFORMERS_VERBOSITY": "error"}
    return {**quiet, **os.environ, **(more or {})}


def uses_torch(kind: str) -> bool:
    return kind in ("padded", "dynamic", "transformers", "compiled")


class _Process:
    """A program in a process that waits for its turns."""

    def __init__(self, program: Program, row: Row, files: tuple[str, str], flags):
        """Starts the process, and waits until it is ready: it must not disturb the others."""
        command = program_command(
            program.kind,
            flags.torch_python if uses_torch(program.kind) else sys.executable,
            model=files[0],
            config=config_path(row),
            data=row.data,
            batches=files[1],
            work=row.work,
            dtype=row.dtype,
            matrix_size=flags.matrix_size,
            device=flags.device,
            options=json.dumps(program.options),
        )
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(program.environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._read()

    def turn(self, number: int) -> dict:
        """Lets the program work on the batches of a turn, and returns its measurements."""
        print(number, file=self._process.stdin, flush=True)
        return self._read()

    def _read(self) -> dict:
        line = self._process.stdout.readline()
        if not line:
            raise ChildProcessError(f"a program ended with code {self._process.wait()}, see above")
        return json.loads(line)

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait()


def take_turns(
    programs: Mapping[str, Program],
    row: Row,
    files: tuple[str, str],
    flags: argparse.Namespace,
    peak: bool = True,
) -> tuple[dict[str, Measurement], float]:
    """Lets programs take turns.

    Args:
      programs: the programs by name.
      row: what they work on.
      files: paths of the model and the batches, see `prepare`.
      flags: those of the benchmark.
      peak: whether to time the matrix product.

    Returns:
      The programs' measurements, and the operations per second of the matrix product.
    """
    processes: dict[str, _Process] = {}
    found: dict[str, list[dict]] = {name: [] for name in programs}
    rates = [0.0]
    try:
        for name, program in programs.items():
            processes[name] = _Process(program, row, files, flags)
        if peak:
            processes[_PRODUCT] = _Process(Program(_PRODUCT), row, files, flags)
        for number in range(flags.turns):
            for _ in ("new", "known"):
                for name in programs:
                    found[name].append(processes[name].turn(number))
                if peak:
                    rates.append(processes[_PRODUCT].turn(number)["rate"])
    finally:
        for process in processes.values():
            process.close()
    examples = row.batch_size * flags.batches
    measured = {}
    for name, passes in found.items():
        speeds = [examples / sum(one["seconds"]) for one in passes]
        losses = [loss for one in passes for loss in one["losses"]]
        measured[name] = Measurement(speeds[::2], speeds[1::2], losses, passes[-1]["memory"])
    return measured, max(rates)


HEADER = (
    f"{'':20}{'':24}{'examples/s':^43}{'of':>7}{'peak':>9}{'this project / program':^34}\n"
    f"{'':20}{'program':<24}{'new shapes':>20}{'known shapes':>22}{'peak':>7}{'memory':>9}"
    f"{'new shapes':>17}{'known shapes':>17}{'wanted':>8}"
)


def print_row(
    name: str,
    row: Row,
    programs: Mapping[str, Program],
    measured: Mapping[str, Measurement],
    peak: float,
    batches: str,
) -> None:
    """Prints the programs' measurements: medians of the turns, and the smallest and largest."""
    with np.load(batches) as file:
        tokens = file["input_mask"].sum(axis=1)[file["order"]].sum() / file["order"].size
    work = matrix_work(config_path(row), row.work) * tokens
    ours = measured[OURS]
    for program, of in measured.items():
        is_ours = program == OURS
        share = work * statistics.median(of.known) / peak if programs[program].peak else None
        ratios = (ratios_of(ours.new, of.new), ratios_of(ours.known, of.known))
        shown = ["" if is_ours else spread(values) for values in ratios]
        aim = row.wanted.get(program)
        aims = "" if aim is None else f"{aim:.0%}" if is_ours else f"{aim:.1f}"
        print(
            f"{name if is_ours else '':20}{program:<23} {spread(of.new):>20} {spread(of.known):>21}"
            f"{'' if share is None else f'{share:.0%}':>7}{of.memory:>6.2f} GB"
            f" {shown[0]:>16} {shown[1]:>16}{aims:>8}",
            flush=True,
        )
    print(
        f"{'':20}peak of a matrix product in {row.dtype}: {peak / 1e9:.0f} GFLOP/s; {tokens:.0f} "
        "tokens an example",
        flush=True,
    )


def ratios_of(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Returns the ratios of speeds in each turn."""
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def spread(values: Sequence[float]) -> str:
    """Returns the median of values, with the smallest and largest."""
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def matrix_work(config_file: str, work: str) -> float:
    """Returns the operations of the layers' matrix products for one token."""
    with open(config_file, encoding="utf-8") as file:
        config = json.load(file)
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    layer = 2.0 * (4 * hidden * hidden + 2 * hidden * wide)
    mapping = 2.0 * config.get("embedding_size", 0) * hidden
    forward = config["num_hidden_layers"] * layer + mapping
    return forward * (3 if work == "training" else 1)


def append_figures(path: str, name: str, row: Row, measured: Mapping[str, Measurement]) -> None:
    """Appends a row's examples per second and gigabytes of each program, as a line of JSON."""
    programs = {
        program: {
            "rate": statistics.median(of.known),
            "new_rate": statistics.median(of.new),
            "memory": of.memory,
        }
        for program, of in measured.items()
    }
    with open(path, "a", encoding="utf-8") as file:
        print(json.dumps({"row": name, "batch": row.batch_size, "programs": programs}), file=file)
