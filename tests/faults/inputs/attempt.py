"""An attempt: a program with a bad input, and its expected end; tables of attempts."""

from __future__ import annotations

import pathlib
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from tests.faults.inputs.good import Content, Make, spoiled
from tests.helpers.running import command_of, run

# The most seconds that a program with little to do may take, on two busy cores.
SECONDS = 60.0
Holds = Callable[[subprocess.CompletedProcess, pathlib.Path], bool]


class Attempt(NamedTuple):
    """A program with a bad input.

    By default the program must refuse it: within `SECONDS`, with exit code 1 or 2, in one line.

    Attributes:
      name: unique in its group.
      command: the program without .py, and its arguments; {w} is the folder of good inputs, {t} a
        separate folder for this attempt, its working folder.
      says: a regular expression that the line must match: the file, the flag or the key.
      make: makes the bad input, given both folders.
      holds: if given, the program may succeed, and this must hold then.
      must_end_well: the program may not refuse.
      start: runs the command in another way than in a forked process.
    """

    name: str
    command: tuple[str, ...]
    says: str = ""
    make: Make | None = None
    holds: Holds | None = None
    must_end_well: bool = False
    start: Callable[[list[str], pathlib.Path], subprocess.CompletedProcess] | None = None


def of_contents(
    name: str,
    command: tuple[str, ...],
    says: str,
    files: str,
    table: Mapping[str, Content],
    *copies: str,
    **more,
) -> Iterator[Attempt]:
    """Gives files other contents; the other fields of the attempts are as given."""
    for of, content in table.items():
        yield Attempt(f"{name}-{of}", command, says, spoiled(files, content, *copies), **more)


def problem_of(attempt: Attempt, good: pathlib.Path, folder: pathlib.Path) -> str | None:
    """Runs an attempt in a separate folder; returns what is wrong with its end, or None."""
    folder.mkdir(parents=True)
    if attempt.make:
        attempt.make(good, folder)
    program, *arguments = attempt.command
    places = {"{w}": str(good), "{t}": str(folder)}
    given = [re.sub(r"\{[wt]\}", lambda match: places[match.group()], text) for text in arguments]
    command = [*command_of(program), *given]
    began = time.monotonic()
    start = attempt.start or (lambda command, folder: run(command, cwd=folder))
    result = start(command, folder)
    problem = _judged(attempt, result, folder, time.monotonic() - began)
    if problem is None:
        shutil.rmtree(folder, ignore_errors=True)
        return None
    last = (result.stdout[-800:] + result.stderr[-1600:]).splitlines()[-6:]
    return "\n  | ".join([f"{problem}\n{shlex.join(command)}", *(line[:300] for line in last)])


def _judged(
    attempt: Attempt, result: subprocess.CompletedProcess, folder: pathlib.Path, seconds: float
) -> str | None:
    if "Traceback" in result.stderr + result.stdout:
        return "a traceback"
    if seconds > SECONDS:
        return f"{seconds:.0f} s, of {SECONDS:.0f}"
    if result.returncode == 0 and (attempt.holds or attempt.must_end_well):
        holds = attempt.holds is None or attempt.holds(result, folder)
        return None if holds else "it ended well, but what must hold then does not"
    if result.returncode not in (1, 2) or attempt.must_end_well:
        return f"exit code {result.returncode}"
    lines = [line for line in result.stderr.splitlines() if re.match(r"[\w. -]+: error: ", line)]
    if len(lines) != 1:
        return f"{len(lines)} lines of error"
    if not re.search(attempt.says, lines[0]):
        return f"its line does not say {attempt.says!r}"
    return None
