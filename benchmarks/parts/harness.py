"""Runs benchmarks: each way is measured in separate processes, by the same module.

The module starts itself again with a flag for the way, and that process prints its measurements as
JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_MARK = "measured: "
# The text that estimates are for, about that of the English Wikipedia.
GIGABYTES = 16


def new_parser(text: str) -> argparse.ArgumentParser:
    """Returns a parser whose help begins with the first line of a docstring."""
    return argparse.ArgumentParser(description=text.split("\n")[0])


def give(found: Any) -> None:
    """Prints the measurements of a process, for the process that started it."""
    print(_MARK + json.dumps(found), flush=True)


def run_again(
    module: str,
    *flags: str,
    launcher: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Any:
    """Runs a benchmark again with this one's flags and more, and returns its measurements.

    Args:
      module: the benchmark, in `benchmarks`.
      flags: more flags; later ones win.
      launcher: the command that starts the process, such as `mpirun` with its options.
      environment: variables in addition to those of this process.
    """
    command = [*launcher, sys.executable, "-m", f"benchmarks.{module}", *sys.argv[1:], *flags]
    return json.loads(output_of(command, environment).split(_MARK, 1)[1].splitlines()[0])


def output_of(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Returns the standard output of a command, which must succeed."""
    env = {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ, **(environment or {})}
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, check=True, text=True)
    return done.stdout


def mpirun(workers: int, *placing: str) -> list[str]:
    """Returns the launcher for some workers, each on a separate core unless `placing` is given."""
    path = os.path.join(os.path.dirname(sys.executable), "mpirun")
    where = placing or ("--bind-to", "core", "--map-by", "socket:PE=1")
    return [path, "--allow-run-as-root", *where, "-np", str(workers)]


def measured(work: Callable[[], int], mb: float) -> dict:
    """Times `work()`, which returns the number of records, for `mb` MB of text."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    records = work()
    memory = [
        resource.getrusage(who).ru_maxrss / 1e3
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    return {
        "mb": mb,
        "records": records,
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": cpu_seconds() - cpu,
        "memory": memory,
    }


def cpu_seconds() -> float:
    """Returns the processor time of this process and of its finished workers."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def print_estimate(work: str, seconds: float, common: float = 0.0) -> None:
    """Prints how long work on `GIGABYTES` of text takes on 1, 8 and 64 hosts like this one.

    Args:
      work: what is done.
      seconds: time on one host of what the hosts share.
      common: time of what each of them does.
    """
    times = (f"{hosts}: {(common + seconds / hosts) / 3600:.2f} h" for hosts in (1, 8, 64))
    print(f"{GIGABYTES} GB of text, {work}, on hosts like this one: {', '.join(times)}")
