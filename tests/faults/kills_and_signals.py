r"""Kills and signals at random moments: every run ends as one that nothing has interrupted.

  python -m tests.faults.kills_and_signals --kills=100 --signals=20 [--seed=N]

A tiny SQuAD run, with one worker or two, is killed before a random change of a file in its output
folder, every second write by half, or gets a signal at a random time. The same command then ends
it, and the folder must be that of an uninterrupted run, to the byte: names and contents of all
files but the curves. A signal's exit code is checked, too.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from tests.conftest import MPIRUN, make_squad_files, squad_command, under_mpirun
from tests.programs.forking import LONGEST

SOURCE = pathlib.Path(__file__).with_name("kill_at.c")
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129}
FLAGS = ("--train_steps=16", "--save_checkpoints_steps=8", "--seed=3")


class Job(NamedTuple):
    """A tiny run with some number of workers, and what it is without interruption.

    Attributes:
      workers: their number.
      inputs: folder of its inputs.
      expected: digests of its files by name.
      seconds: that it takes.
      changes: that rank 0 makes to files.
    """

    workers: int
    inputs: pathlib.Path
    expected: dict[str, str] = {}
    seconds: float = 0.0
    changes: int = 0

    def start(self, folder: pathlib.Path, **environment: str) -> subprocess.Popen:
        """Starts it; with KILL_FOLDER in the environment, its changes are counted."""
        flags = (*FLAGS, f"--train_batch_size={8 // self.workers}")
        command = squad_command(self.inputs, folder, *flags)
        if self.workers > 1:
            command = under_mpirun(self.workers, [*command, "--use_horovod=true"])
        log = open(f"{folder}.log", "a")  # noqa: SIM115
        env = {**os.environ, **environment}
        return subprocess.Popen(command, stdout=log, stderr=log, env=env)


def contents(folder: pathlib.Path) -> dict[str, str]:
    """Digests of all files of a run but its curves, by name."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "tfevents" not in path.name
    }


def uninterrupted(workers: int, inputs: pathlib.Path, work: pathlib.Path, library: str) -> Job:
    """The job, after a run that tells what to expect."""
    folder, count = work / f"whole-{workers}", work / f"count-{workers}"
    job = Job(workers, inputs)
    began = time.monotonic()
    variables = {"LD_PRELOAD": library, "KILL_FOLDER": str(folder), "KILL_COUNT": str(count)}
    if workers > 1:
        variables["KILL_RANK"] = "0"
    check(job.start(folder, **variables).wait(LONGEST) == 0, "the uninterrupted run failed", folder)
    seconds = time.monotonic() - began
    return job._replace(expected=contents(folder), seconds=seconds, changes=int(count.read_text()))


def check(holds: bool, message: str, folder: pathlib.Path) -> None:
    """Ends the program with the log's last lines unless something holds."""
    if not holds:
        log = pathlib.Path(f"{folder}.log").read_text(errors="replace")
        sys.exit(f"{message}\n{log[-6000:]}\nfailed: {message} ({folder})")


def kill(job: Job, folder: pathlib.Path, library: str, rng: random.Random) -> str:
    """Kills a run before a random change of a file; says where."""
    at = rng.randint(1, job.changes)
    variables = {"LD_PRELOAD": library, "KILL_FOLDER": str(folder), "KILL_AT": str(at)}
    if job.workers > 1:
        variables["KILL_RANK"] = "0"
    code = job.start(folder, **variables).wait(LONGEST)
    # Once in a while a run takes fewer changes than the first one: it is whole then.
    check(code != 0 or contents(folder) == job.expected, "it ended well, but differs", folder)
    return f"killed at change {at} of {job.changes}"


def stop(job: Job, folder: pathlib.Path, rng: random.Random) -> str:
    """Sends a run a random signal at a random time; says which."""
    number, after = rng.choice(list(CODES)), rng.uniform(0, 1.2 * job.seconds)
    process = job.start(folder)
    time.sleep(after)
    targets = [process.pid]
    if job.workers > 1:
        targets += ranks_of(process.pid)
    target = rng.choice(targets)
    try:
        os.kill(target, number)
    except ProcessLookupError:
        target = None
    code = process.wait(LONGEST)
    if job.workers == 1:
        # Until it has handlers of its own, a signal ends the Python that starts.
        fine = (CODES[number], -number, 0)
    else:
        # mpirun ends with 1 when it is told to end itself, and with the worker's code else.
        fine = (CODES[number], 1, -number, 128 + number, 0)
    check(code in fine, f"{number.name} after {after:.2f} s: exit code {code}", folder)
    who = "nobody left" if target is None else f"process {targets.index(target)}"
    return f"{number.name} after {after:.2f} s to {who}: exit code {code}"


def ranks_of(launcher: int) -> list[int]:
    """The processes of the workers, as far as they have been started."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(launcher)], capture_output=True)
    return list(map(int, listed.stdout.split()))


def main() -> None:
    """Runs all trials; ends at the first that fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--signals", type=int, default=20)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    rng = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(temporary)
        library = str(work / "kill_at.so")
        compiler = os.environ.get("CC", "cc")
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", library, str(SOURCE), "-ldl", "-lpthread"],
            check=True,
        )
        inputs = work / "inputs"
        inputs.mkdir()
        make_squad_files(inputs)
        sizes = [1, 2] if MPIRUN.exists() else [1]
        jobs = [uninterrupted(size, inputs, work, library) for size in sizes]
        trials = ["kill"] * arguments.kills + ["signal"] * arguments.signals
        for number, trial in enumerate(trials):
            job = jobs[number % len(jobs)]
            folder = work / f"run-{number}"
            happened = (
                kill(job, folder, library, rng) if trial == "kill" else stop(job, folder, rng)
            )
            code = job.start(folder).wait(LONGEST)
            check(code == 0, f"{happened}; then the same command ended with {code}", folder)
            found = contents(folder)
            differ = sorted(
                name
                for name in found.keys() | job.expected.keys()
                if found.get(name) != job.expected.get(name)
            )
            check(not differ, f"{happened}; then these files differ: {', '.join(differ)}", folder)
            line = f"{number + 1}/{len(trials)}, {job.workers} workers: {happened}; resumed, equal"
            print(line, flush=True)


if __name__ == "__main__":
    main()
