"""Runs benchmarks: their ways take turns, each in a new process of the same module.

The module starts itself again with --way, and that process prints its measurements as JSON.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_MARK = "measured: "


class Way(NamedTuple):
    """A way to measure: a function of the flags, variables and the launcher of its process."""

    measure: Callable[[argparse.Namespace], Any]
    environment: Mapping[str, str] = {}
    launcher: Sequence[str] = ()


def in_turns(ways: Mapping[str, Way], rounds: int, *flags: str) -> dict[str, list]:
    """Measures each way once per round, in new processes; returns the measurements by way."""
    measured: dict[str, list] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            measured[name].append(run_again(f"--way={name}", *flags, way=way))
    return measured


def run_again(*flags: str, way: Way) -> Any:
    """Runs this benchmark again with its flags and more, which win; returns the measurements."""
    module = sys.modules["__main__"].__spec__.name
    command = [*way.launcher, sys.executable, "-m", module, *sys.argv[1:], *flags]
    return json.loads(output_of(command, way.environment).split(_MARK, 1)[1].splitlines()[0])


def give(measurements: Any) -> None:
    """Prints the measurements of a process, for the process that started it."""
    print(_MARK + json.dumps(measurements), flush=True)


def output_of(
    command: Sequence[str], environment: Mapping[str, str] | None = None, **options: Any
) -> str:
    """Returns the standard output of a command, which must succeed."""
    options |= {"stdout": subprocess.PIPE, "check": True, "text": True}
    env = {**os.environ, **(environment or {})}
    return subprocess.run(command, cwd=ROOT, env=env, **options).stdout


def mpirun(workers: int, *placing: str) -> list[str]:
    """Returns the launcher for some workers, each on a separate core unless `placing` is given."""
    path = os.path.join(os.path.dirname(sys.executable), "mpirun")
    where = placing or ("--bind-to", "core", "--map-by", "socket:PE=1")
    return [path, "--allow-run-as-root", *where, "-np", str(workers)]


class Timed(NamedTuple):
    """The seconds of a command, and its peak memory in bytes."""

    seconds: float
    memory: int


def timed(command: Sequence[str], log: str, environment: Mapping[str, str] | None = None) -> Timed:
    """Runs a command in a small process of this module, with its output in a log: Linux counts in
    the peak memory that of the process that starts the command."""
    words = [sys.executable, "-m", "benchmarks.parts.harness", log, *command]
    *values, status = json.loads(output_of(words, environment))
    if status:
        with open(log, encoding="utf-8") as file:
            raise RuntimeError(f"{command} failed: {file.read()[-2000:]}")
    return Timed(*values)


def _time(log: str, *command: str) -> None:
    """Runs a command; prints its seconds, its peak memory in bytes, and its status."""
    start = time.perf_counter()
    with open(log, "wb") as file:
        to_log = [(os.POSIX_SPAWN_DUP2, file.fileno(), number) for number in (1, 2)]
        process = os.posix_spawn(command[0], command, os.environ, file_actions=to_log)
        _, status, usage = os.wait4(process, 0)
    print(json.dumps([time.perf_counter() - start, usage.ru_maxrss * 1024, status]))


class Table:
    """A table that is printed row by row, with the width of names and the least of others."""

    def __init__(self, *titles: str, name_width: int = 26, width: int = 10):
        self._widths = [name_width, *(max(width, len(title) + 2) for title in titles)]
        self.row("", *titles)

    def row(self, name: str, *cells: object) -> None:
        """Prints a row, whose last cells may be missing."""
        first, *others = self._widths
        shown = (f"{cell:>{width}}" for cell, width in zip(cells, others, strict=False))
        print((f"{name:<{first}}" + "".join(shown)).rstrip(), flush=True)


def spread(values: Sequence[float]) -> str:
    """Returns the median of values, with the smallest and largest."""
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def ratios_of(firsts: Sequence[float], seconds: Sequence[float]) -> list[float]:
    """Returns the ratios of the values of each turn."""
    return [a / b for a, b in zip(firsts, seconds, strict=True)]


def seconds_of(call: Callable[[], object]) -> float:
    """Returns the time that a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def peak_memory() -> int:
    """Returns the largest number of bytes that this process has had in memory; unlike `getrusage`,
    without the process that started it."""
    with open("/proc/self/status", encoding="utf-8") as file:
        peak = re.search(r"^VmHWM:\s+(\d+) kB$", file.read(), re.MULTILINE)
    return int(peak[1]) * 1024 if peak else 0


if __name__ == "__main__":
    _time(*sys.argv[1:])
