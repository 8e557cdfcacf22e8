r"""Gives the programs bad inputs by the hundred; each must refuse them in one line, or use them.

  python -m tests.faults.inputs [--group=2] [--only=NAME] [--keep=FOLDER]

Ends with 1 if one is not as it must be, after a table and what each of these has printed. With
--keep the good inputs and what bad attempts have left stay, and the good ones are used again.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import fnmatch
import importlib
import pathlib
import shlex
import shutil
import sys
import tempfile

from tests.faults.inputs.attempt import Attempt, attempted
from tests.faults.inputs.good import make_good

# By the module that has the attempts.
GROUPS = {1: "server", 2: "models", 3: "data", 4: "disks", 5: "flags", 6: "pretraining"}


def chosen(group: int | None, only: str) -> dict[int, list[Attempt]]:
    """The attempts by group whose names fit a pattern."""
    found = {}
    for number, name in GROUPS.items():
        if group in (None, number):
            module = importlib.import_module(f"tests.faults.inputs.{name}")
            found[number] = [a for a in module.attempts() if fnmatch.fnmatch(a.name, only)]
            twice = [
                a for a, n in collections.Counter(a.name for a in found[number]).items() if n > 1
            ]
            assert not twice, f"names that two attempts have: {twice}"
    return found


def run_group(attempts: list[Attempt], good: pathlib.Path, work: pathlib.Path) -> int:
    """Runs the attempts of a group, prints those that end badly, and returns their number."""
    bad = 0
    for number, attempt in enumerate(attempts, start=1):
        # Without the attempt's name, which has what a message is to say.
        folder = work / str(number)
        shutil.rmtree(folder, ignore_errors=True)
        verdict = attempted(attempt, good, folder)
        if verdict.problem:
            bad += 1
            print(f"\nBAD {attempt.name}: {verdict.problem}\n{shlex.join(verdict.command)}")
            lines = verdict.output.splitlines()
            print("\n".join(f"  | {line[:300]}" for line in lines[-6:]), flush=True)
        if number % 25 == 0:
            print(f"{number} of {len(attempts)}", flush=True)
    return bad


def main() -> None:
    """Runs the attempts that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--group", type=int, choices=GROUPS)
    parser.add_argument("--only", default="*", help="a name, or a pattern such as 'ask-*'")
    parser.add_argument("--keep", type=pathlib.Path)
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        work = arguments.keep or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        good = work.resolve() / "good"
        if not good.exists():
            work.mkdir(parents=True, exist_ok=True)
            make_good(good)
        groups = chosen(arguments.group, arguments.only)
        found = {n: run_group(some, good, work.resolve() / str(n)) for n, some in groups.items()}
    print(f"\n{'group':<16} {'attempts':>8} {'bad':>4}")
    for number, some in groups.items():
        print(f"{number} {GROUPS[number]:<14} {len(some):>8} {found[number]:>4}")
    sys.exit(any(found.values()))


if __name__ == "__main__":
    main()
