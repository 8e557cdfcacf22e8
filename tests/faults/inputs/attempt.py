"""An attempt: a program with a bad input, and how it must end."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from tests.helpers.forking import ROOT
from tests.helpers.running import run

# How much slower than this a program may not be that has little to do, on two busy cores.
SECONDS = 60.0
Make = Callable[[pathlib.Path, pathlib.Path], object]
Holds = Callable[[subprocess.CompletedProcess, pathlib.Path], bool]


class Attempt(NamedTuple):
    """A program with a bad input.

    By default the program must refuse it: within `seconds`, with exit code 1 or 2, in one line.

    Attributes:
      name: unique among those of its group.
      command: the program without .py, and its arguments; {w} is the folder of good inputs, {t} one
        for this attempt alone, its working folder.
      says: a regular expression which that line must have: the file, the flag or the key.
      make: makes what is bad, given both folders.
      holds: if given, the program may end well, and this must hold then.
      must_end_well: it may not refuse.
      seconds: it may take.
      start: runs the command in another way than in a forked process.
    """

    name: str
    command: tuple[str, ...]
    says: str = ""
    make: Make | None = None
    holds: Holds | None = None
    must_end_well: bool = False
    seconds: float = SECONDS
    start: Callable[[list[str], pathlib.Path], subprocess.CompletedProcess] | None = None


class Verdict(NamedTuple):
    """What is wrong with how an attempt has ended, if anything, and the command to see it."""

    problem: str | None
    output: str
    command: list[str]


def attempted(attempt: Attempt, good: pathlib.Path, folder: pathlib.Path) -> Verdict:
    """Runs an attempt in a folder of its own and judges it."""
    folder.mkdir(parents=True)
    if attempt.make:
        attempt.make(good, folder)
    program, *arguments = attempt.command
    places = {"{w}": str(good), "{t}": str(folder)}
    given = [re.sub(r"\{[wt]\}", lambda match: places[match.group()], text) for text in arguments]
    command = [sys.executable, str(ROOT / f"{program}.py"), *given]
    began = time.monotonic()
    start = attempt.start or (lambda command, folder: run(command, cwd=folder))
    result = start(command, folder)
    problem = problem_of(attempt, result, folder, time.monotonic() - began)
    if problem is None:
        shutil.rmtree(folder, ignore_errors=True)
    return Verdict(problem, result.stdout[-800:] + result.stderr[-1600:], command)


def problem_of(
    attempt: Attempt, result: subprocess.CompletedProcess, folder: pathlib.Path, seconds: float
) -> str | None:
    """What is wrong with how an attempt has ended; None if nothing is."""
    if "Traceback" in result.stderr + result.stdout:
        return "a traceback"
    if seconds > attempt.seconds:
        return f"{seconds:.0f} s, of {attempt.seconds:.0f}"
    if result.returncode == 0 and (attempt.holds or attempt.must_end_well):
        holds = attempt.holds is None or attempt.holds(result, folder)
        return None if holds else "it ended well, but what must hold then does not"
    if result.returncode not in (1, 2) or attempt.must_end_well:
        return f"exit code {result.returncode}"
    lines = [line for line in result.stderr.splitlines() if re.match(r"\S+\.py: error: ", line)]
    if len(lines) != 1:
        return f"{len(lines)} lines of error"
    if not re.search(attempt.says, lines[0]):
        return f"its line does not say {attempt.says!r}"
    return None
