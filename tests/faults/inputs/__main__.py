r"""Gives the programs hundreds of bad inputs; each must refuse them in one line, or use them.

  python -m tests.faults.inputs [--group=2] [--only=NAME] [--keep=FOLDER]

Ends with 1 if a program behaves otherwise, after a table and the output of these programs. With
--keep, the good inputs and the leftovers of bad attempts stay, and the good ones are used again.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import importlib
import pathlib
import shutil
import sys
import tempfile

from tests.faults.inputs.attempt import Attempt, problem_of
from tests.faults.inputs.good import make_good

# By the module that has the attempts.
GROUPS = {1: "server", 2: "models", 3: "disks", 4: "pretraining"}


def chosen(number: int, only: str) -> list[Attempt]:
    """Returns the attempts of a group whose names match a pattern."""
    module = importlib.import_module(f"tests.faults.inputs.{GROUPS[number]}")
    attempts = list(module.attempts())
    assert len({attempt.name for attempt in attempts}) == len(attempts), "a name occurs twice"
    return [attempt for attempt in attempts if fnmatch.fnmatch(attempt.name, only)]


def run_group(attempts: list[Attempt], good: pathlib.Path, work: pathlib.Path) -> int:
    """Runs the attempts of a group, prints those that end badly, and returns their number."""
    bad = 0
    for number, attempt in enumerate(attempts, start=1):
        # Without the attempt's name, which contains words that a message must have.
        folder = work / str(number)
        shutil.rmtree(folder, ignore_errors=True)
        if problem := problem_of(attempt, good, folder):
            bad += 1
            print(f"\nBAD {attempt.name}: {problem}", flush=True)
        if number % 25 == 0:
            print(f"{number} of {len(attempts)}", flush=True)
    return bad


def main() -> None:
    """Runs the chosen attempts."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--group", type=int, choices=GROUPS)
    parser.add_argument("--only", default="*", help="a name, or a pattern such as 'ask-*'")
    parser.add_argument("--keep", type=pathlib.Path)
    arguments = parser.parse_args()
    table, failed = [f"\n{'group':<16} {'attempts':>8} {'bad':>4}"], 0
    with contextlib.ExitStack() as stack:
        work = arguments.keep or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        good = work.resolve() / "good"
        good.parent.mkdir(parents=True, exist_ok=True)
        if not good.exists():
            make_good(good)
        for number in [arguments.group] if arguments.group else GROUPS:
            attempts = chosen(number, arguments.only)
            bad = run_group(attempts, good, good.parent / str(number))
            failed += bad
            table.append(f"{number} {GROUPS[number]:<14} {len(attempts):>8} {bad:>4}")
    print("\n".join(table))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
