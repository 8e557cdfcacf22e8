r"""Kills and signals at random moments: every run ends like an uninterrupted one.

  python -m tests.faults.kills_and_signals --kills=60 --signals=20 [--seed=N] [--keep_going]
      [--settings=plain,patience,...]

Tiny runs are killed before a random change of a file in their output folder, or in the middle of
every second write, or get a signal at a random time or step. The same command then finishes them,
and the folder must equal that of an uninterrupted run byte for byte, except the curves. Settings,
programs and kinds of files are equally likely. --trial=NUMBER repeats a trial.
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from albert.training import metrics
from tests.helpers.forking import LONGEST, ROOT
from tests.helpers.running import MPIRUN, at_step, under_mpirun
from tests.helpers.squad import make_squad_files
from tests.helpers.tiny_runs import FLAGS, write_input

SOURCE = pathlib.Path(__file__).with_name("kill_at.c")
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129}
KILL, SIGNAL = "kill", "signal"


_LONGER = ("--train_steps=16", "--save_checkpoints_steps=8", "--seed=3", "--preprocess_workers=1")


class Job(NamedTuple):
    """A run of a program by workers, under a setting with its flags."""

    setting: str
    program: str
    workers: int = 1
    flags: str = ""

    def command(self, inputs: pathlib.Path, folder: pathlib.Path, *fault: str) -> list[str]:
        """Returns its command; with a fault, step and rank of `tests.programs.at_step`."""
        scratch = () if self.program == "run_pretraining" else ("--from_scratch",)
        given = (*FLAGS[self.program], *_LONGER, *scratch, *self.flags.split())
        flags = [flag.format(squad=inputs, folder=inputs) for flag in given]
        program = str(ROOT / f"{self.program}.py")
        command = [sys.executable, program, *flags, f"--output_dir={folder}"]
        if fault:
            name, step, rank = fault
            command = at_step(name, int(step), command, int(rank))
        if self.workers == 1:
            return command
        return under_mpirun(self.workers, [*command, "--use_horovod=true"])


_SCORING = "--evaluate_while_training --save_checkpoints_steps=4"
# Writes checkpoints that are only for resuming, every few steps.
_OFTEN = "--save_checkpoints_minutes=0.002"
_BUCKETS = "--max_seq_length=128 --doc_stride=100 --length_buckets=64,96,128 --train_batch_size=4"
_SHARDED = "--train_batch_size=2 --gradient_accumulation_steps=2 --shard_optimizer=gradients"
_PATIENT = f"{_SCORING} --train_steps=60 --patience=2"
_ALL = (
    Job("plain", "run_squad_v1"),
    Job("plain", "run_squad_v1", 2, "--train_batch_size=4"),
    Job("plain", "run_squad_v2"),
    Job("plain", "run_ner"),
    Job("plain", "run_pretraining"),
    Job("evaluate_while_training", "run_squad_v1", 1, f"{_SCORING} {_OFTEN}"),
    Job("evaluate_while_training", "run_classifier", 1, _SCORING),
    Job("patience", "run_squad_v1", 1, _PATIENT),
    Job("patience", "run_classifier", 1, _PATIENT),
    Job("length_buckets", "run_squad_v1", 1, _BUCKETS),
    Job("length_buckets", "run_race", 1, "--length_buckets=16,20,24"),
    Job("sharded", "run_squad_v1", 2, _SHARDED),
    Job("sharded", "run_classifier", 2, _SHARDED),
)
SETTINGS = tuple(dict.fromkeys(job.setting for job in _ALL))


def jobs_of(setting: str) -> list[Job]:
    """Returns the jobs of a setting that can run here: several workers need mpirun."""
    return [job for job in _ALL if job.setting == setting and (job.workers == 1 or MPIRUN.exists())]


class Failed(Exception):
    """A trial has not ended as it must."""


class Trial(NamedTuple):
    """A job and what happens to it."""

    number: int
    kind: str
    job: Job


class Whole(NamedTuple):
    """An uninterrupted job: its folder, its time, the kinds of files that rank 0 changes."""

    folder: pathlib.Path
    seconds: float
    changes: list[str]


def contents(folder: pathlib.Path) -> set[tuple[str, str]]:
    """Returns names and digests of all files of a run except curves and graphs of checkpoints.

    In a graph, TensorFlow numbers Python functions by how many the process has made before; a run
    that scores before it continues its training has other numbers.
    """
    return {
        (str(path.relative_to(folder)), hashlib.sha256(content_of(path)).hexdigest())
        for path in folder.rglob("*")
        if path.is_file() and "tfevents" not in path.name and path.suffix != ".meta"
    }


def content_of(path: pathlib.Path) -> bytes:
    """Returns the content of a file; of metrics, without times and speeds, and without the training
    steps after the first, which may be logged only because a run starts with them."""
    if path.name != metrics.METRICS:
        return path.read_bytes()
    lines = metrics.read(str(path.parent))
    training = [line for line in lines if line["kind"] == metrics.TRAINING]
    steps = [line["step"] for line in training]
    scores = [{**line, "time": 0} for line in lines if line["kind"] == metrics.SCORES]
    scores.sort(key=lambda line: line["step"])
    first = [(line["step"], line["loss"]) for line in training[:1]]
    is_whole = path.read_bytes().count(b"\n") == len(lines) and steps == sorted({*steps})
    return json.dumps([is_whole, first, scores]).encode()


class Trials:
    """Runs jobs in separate folders, and caches the result of each without interruption."""

    def __init__(self, work: pathlib.Path, seed: int):
        """Makes the inputs, and compiles the library that kills."""
        self._work, self._seed = work, seed
        self._wholes: dict[Job, Whole] = {}
        self._inputs, self._library = work / "inputs", str(work / "kill_at.so")
        self._inputs.mkdir()
        make_squad_files(self._inputs)
        for program in FLAGS:
            write_input(program, self._inputs, self._inputs)
        compiler, libraries = os.environ.get("CC", "cc"), ("-ldl", "-lpthread")
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", self._library, str(SOURCE)]
        subprocess.run([*command, *libraries], check=True)
        # In another folder than the runs, whose changes are recognized by a prefix of the path.
        (work / "logs").mkdir()

    def run(self, trial: Trial) -> str:
        """Interrupts a job, resumes it and compares; returns what happened, or raises `Failed`."""
        job, folder = trial.job, self._work / f"run-{trial.number}"
        whole = self._whole(job)
        rng = random.Random(f"{self._seed} {trial.number}")
        happened = (self._kill if trial.kind == KILL else self._signal)(job, whole, folder, rng)
        step = newest_step(folder)
        code = self._end(job.command(self._inputs, folder), folder)
        self._check(code == 0, f"{happened}; the command that goes on ended with {code}", folder)
        differ = sorted({name for name, _ in contents(whole.folder) ^ contents(folder)})
        self._check(not differ, f"{happened}; then these differ: {', '.join(differ)}", folder)
        shutil.rmtree(folder)
        return f"{happened}; resumed from step {step}, equal"

    def _kill(self, job: Job, whole: Whole, folder: pathlib.Path, rng: random.Random) -> str:
        """Kills a run before a random change of a file; returns where."""
        # All kinds of files are equally likely.
        kind = rng.choice(sorted({*whole.changes}))
        at = rng.choice([n for n, name in enumerate(whole.changes, start=1) if name == kind])
        command = job.command(self._inputs, folder)
        code = self._end(command, folder, **self._counting(job, folder), KILL_AT=str(at))
        # Occasionally a run makes fewer changes than the first one; then it is complete.
        is_whole = code == 0 and contents(folder) == contents(whole.folder)
        self._check(code != 0 or is_whole, "it ended well, but differs", folder)
        return f"killed at change {at} of {len(whole.changes)}, {whole.changes[at - 1]}"

    def _signal(self, job: Job, whole: Whole, folder: pathlib.Path, rng: random.Random) -> str:
        """Sends a run a random signal, at a random time or after a random step; returns which."""
        number = rng.choice(list(CODES))
        if rng.random() < 0.5:
            step, rank = rng.randint(1, newest_step(whole.folder)), rng.randrange(job.workers)
            command = job.command(self._inputs, folder, number.name, str(step), str(rank))
            where, heard = f"behind step {step} to rank {rank}", step < newest_step(whole.folder)
            code = self._end(command, folder)
        else:
            after = rng.uniform(0, 1.2 * whole.seconds)
            process = self._start(job.command(self._inputs, folder), folder)
            time.sleep(after)
            # It may have ended before.
            heard = False
            where = f"after {after:.2f} s to {send(process, number, job.workers, rng)}"
            code = process.wait(LONGEST)
        # Until it has handlers, a signal ends the starting Python.
        fine = [CODES[number], -number]
        if not heard:
            fine.append(0)
        if job.workers > 1:
            # mpirun ends with 1 when it is told to end, otherwise with the worker's code.
            fine += [1, 128 + number]
        self._check(code in fine, f"{number.name} {where}: exit code {code}", folder)
        return f"{number.name} {where}: exit code {code}"

    def _whole(self, job: Job) -> Whole:
        if job not in self._wholes:
            folder, paths = self._work / f"whole-{len(self._wholes)}", self._work / "paths"
            began = time.monotonic()
            variables = {**self._counting(job, folder), "KILL_PATHS": str(paths)}
            code = self._end(job.command(self._inputs, folder), folder, **variables)
            self._check(code == 0, f"without interruption it ended with {code}", folder)
            seconds = time.monotonic() - began
            changes = [kind_of(line, folder) for line in paths.read_text().splitlines()]
            self._wholes[job] = Whole(folder, seconds, changes)
        return self._wholes[job]

    def _counting(self, job: Job, folder: pathlib.Path) -> dict[str, str]:
        """Returns variables with which a run, of several workers rank 0, counts its changes."""
        rank = {"KILL_RANK": "0"} if job.workers > 1 else {}
        return {"LD_PRELOAD": self._library, "KILL_FOLDER": str(folder), **rank}

    def _start(self, command: list[str], folder: pathlib.Path, **more: str) -> subprocess.Popen:
        with open(self._work / "logs" / folder.name, "a") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **more})

    def _end(self, command: list[str], folder: pathlib.Path, **more: str) -> int:
        return self._start(command, folder, **more).wait(LONGEST)

    def _check(self, holds: bool, message: str, folder: pathlib.Path) -> None:
        if not holds:
            log = (self._work / "logs" / folder.name).read_text(errors="replace")
            raise Failed(f"{log[-4000:]}\n{message}")


def kind_of(path: str, folder: pathlib.Path) -> str:
    """Returns a file's name in a folder without random parts and numbers."""
    name = re.sub(r"((?:^|/)\..+)\.(?:tmp\w+|\w{8})$", r"\1", os.path.relpath(path, folder))
    return re.sub(r"\d+", "N", name)


def newest_step(folder: pathlib.Path) -> int:
    """Returns the step of a folder's newest checkpoint, 0 without one."""
    names = [path.name for path in folder.glob("*.index")]
    steps = (re.fullmatch(r"(?:model|resume)\.ckpt-(\d+)\.index", name) for name in names)
    return max((int(step.group(1)) for step in steps if step), default=0)


def send(process: subprocess.Popen, number: int, workers: int, rng: random.Random) -> str:
    """Sends a signal to a process or one of its workers; returns to which."""
    targets = [process.pid]
    if workers > 1:
        listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], stdout=-1)
        targets += map(int, listed.stdout.split())
    target = rng.choice(targets)
    try:
        os.kill(target, number)
    except ProcessLookupError:
        return "nobody left"
    return f"process {targets.index(target)}"


def planned(settings: list[str], kills: int, signals: int) -> list[Trial]:
    """Returns all trials; each kind cycles through the settings and their jobs."""
    by_setting = {setting: jobs_of(setting) for setting in settings}
    missing = [setting for setting, jobs in by_setting.items() if not jobs]
    if missing:
        print(f"skipped without mpirun (make horovod): {', '.join(missing)}")
    able = [jobs for jobs in by_setting.values() if jobs]
    trials = []
    for kind, count in ((KILL, kills), (SIGNAL, signals)):
        for turn in range(count):
            cycle, index = divmod(turn, len(able))
            job = able[index][cycle % len(able[index])]
            trials.append(Trial(len(trials) + 1, kind, job))
    return trials


def main() -> None:
    """Runs all trials; ends with 1 if one has failed, at once unless told to keep going."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--signals", type=int, default=20)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--settings", type=lambda text: text.split(","), default=list(SETTINGS))
    parser.add_argument("--trial", type=int, help="only this one")
    parser.add_argument("--keep_going", action="store_true", help="also when one has failed")
    arguments = parser.parse_args()
    for setting in set(arguments.settings) - set(SETTINGS):
        parser.error(f"--settings: {setting} is none of {', '.join(SETTINGS)}")
    # A shell starts background jobs, and `nohup` all commands, with some of them ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    print(f"seed {arguments.seed}", flush=True)
    trials = planned(arguments.settings, arguments.kills, arguments.signals)
    chosen = [trial for trial in trials if arguments.trial in (None, trial.number)]
    failures = 0
    with tempfile.TemporaryDirectory() as work:
        runner = Trials(pathlib.Path(work), arguments.seed)
        for trial in chosen:
            job = trial.job
            name = f"{trial.number}/{len(trials)}, {job.setting}, {job.program} x {job.workers}"
            try:
                outcome = runner.run(trial)
            except Failed as e:
                failures += 1
                outcome = f"{e}\n{name}: failed; again: --trial={trial.number}, --seed, as above"
            print(f"{name}: {outcome}", flush=True)
            if failures and not arguments.keep_going:
                break
    print(f"{len(chosen)} trials, {failures} failed")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
