"""Kills and signals at random moments: every run ends like an uninterrupted one.

  make test-faults [KILLS=60] [SIGNALS=20] [SEED=N] [FLAGS="-k patience"]

Tiny runs are killed before a random change of a file in their output folder, or in the middle of
every second write, or get a signal at a random time or step. The same command then finishes them,
and the folder must equal that of an uninterrupted run byte for byte, except the curves. Settings,
programs and kinds of files are equally likely. The same seed and name repeat a trial.
"""

import functools
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import pytest

from albert.training import metrics
from tests.helpers.forking import LONGEST, ROOT
from tests.helpers.running import MPIRUN, at_step, under_mpirun
from tests.helpers.tiny_runs import FLAGS, write_input

pytestmark = pytest.mark.timeout(4 * LONGEST)
# A shell starts a job in the background with these ignored, and so would be the runs.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
SOURCE = pathlib.Path(__file__).with_name("kill_at.c")
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129}
KILLS, SIGNALS = int(os.environ.get("KILLS", 60)), int(os.environ.get("SIGNALS", 20))
SEED = os.environ.get("SEED") or str(time.time_ns() % 1_000_000)

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
ALL = (
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


def trials(kind: str, count: int) -> pytest.MarkDecorator:
    """Parametrizes a test by jobs, which cycle through the settings, and by random generators."""
    jobs = [job for job in ALL if job.workers == 1 or MPIRUN.exists()]
    settings = list(dict.fromkeys(job.setting for job in jobs))
    chosen = []
    for number in range(count):
        turn, index = divmod(number, len(settings))
        able = [job for job in jobs if job.setting == settings[index]]
        job, name = able[turn % len(able)], f"{number}-seed {SEED}"
        rng = random.Random(f"{SEED} {kind} {number}")
        title = f"{name}-{job.setting}-{job.program} x {job.workers}"
        chosen.append(pytest.param(job, rng, id=title))
    return pytest.mark.parametrize(("job", "rng"), chosen)


class Whole(NamedTuple):
    """An uninterrupted job: its folder, its time, the kinds of files that rank 0 changes."""

    folder: pathlib.Path
    seconds: float
    changes: list[str]


@pytest.fixture(scope="module")
def inputs(squad_dir) -> pathlib.Path:
    for program in FLAGS:
        write_input(program, squad_dir, squad_dir)
    return squad_dir


@pytest.fixture(scope="module")
def counting(tmp_path_factory) -> Callable[[Job, pathlib.Path], dict[str, str]]:
    """Returns variables with which a job, of several workers rank 0, counts its changes."""
    library = tmp_path_factory.mktemp("library") / "kill_at.so"
    compiler, libraries = os.environ.get("CC", "cc"), ("-ldl", "-lpthread")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", library, SOURCE, *libraries]
    subprocess.run(command, check=True)

    def counting(job: Job, folder: pathlib.Path) -> dict[str, str]:
        rank = {"KILL_RANK": "0"} if job.workers > 1 else {}
        return {"LD_PRELOAD": str(library), "KILL_FOLDER": str(folder), **rank}

    return counting


def start(command: list[str], **variables: str) -> subprocess.Popen:
    """Starts a command whose output pytest shows if the test fails."""
    return subprocess.Popen(command, env={**os.environ, **variables})


@pytest.fixture(scope="module")
def whole(inputs, counting, tmp_path_factory) -> Callable[[Job], Whole]:
    """Returns a function that runs a job without interruption, once."""

    @functools.cache
    def whole(job: Job) -> Whole:
        folder = tmp_path_factory.mktemp("whole")
        paths, began = folder / "paths", time.monotonic()
        variables = {**counting(job, folder / "out"), "KILL_PATHS": str(paths)}
        assert start(job.command(inputs, folder / "out"), **variables).wait(LONGEST) == 0
        changes = [kind_of(line, folder / "out") for line in paths.read_text().splitlines()]
        return Whole(folder / "out", time.monotonic() - began, changes)

    return whole


def assert_resumes(command: list[str], folder: pathlib.Path, whole: Whole, happened: str) -> None:
    """Fails unless the command finishes a run that ends like an uninterrupted one."""
    print(f"{happened}; resuming from step {newest_step(folder)}", flush=True)
    assert start(command).wait(LONGEST) == 0, happened
    assert {name for name, _ in contents(whole.folder) ^ contents(folder)} == set(), happened


@trials("kill", KILLS)
def test_a_killed_job_resumes(job, rng, inputs, counting, whole, tmp_path):
    """All kinds of files are equally likely."""
    changes, folder, command = (
        whole(job).changes,
        tmp_path / "out",
        job.command(inputs, tmp_path / "out"),
    )
    kind = rng.choice(sorted({*changes}))
    at = rng.choice([n for n, name in enumerate(changes, start=1) if name == kind])
    code = start(command, **counting(job, folder), KILL_AT=str(at)).wait(LONGEST)
    # Occasionally a run makes fewer changes than the first one; then it is complete.
    assert code != 0 or contents(folder) == contents(whole(job).folder)
    assert_resumes(command, folder, whole(job), f"killed at change {at} of {len(changes)}, {kind}")


@trials("signal", SIGNALS)
def test_a_signaled_job_resumes(job, rng, inputs, whole, tmp_path):
    """The signal comes at a random time or after a random step."""
    folder, number, last = tmp_path / "out", rng.choice(list(CODES)), newest_step(whole(job).folder)
    if rng.random() < 0.5:
        step, rank = rng.randint(1, last), rng.randrange(job.workers)
        where, may_miss = f"behind step {step} to rank {rank}", step == last
        code = start(job.command(inputs, folder, number.name, str(step), str(rank))).wait(LONGEST)
    else:
        process = start(job.command(inputs, folder))
        time.sleep(rng.uniform(0, 1.2 * whole(job).seconds))
        # It may have ended before.
        where, may_miss = send(process, number, job.workers, rng), True
        code = process.wait(LONGEST)
    # Until it has handlers, a signal ends the starting Python.
    fine = [CODES[number], -number, *([0] if may_miss else [])]
    # mpirun ends with 1 when it is told to end, otherwise with the worker's code.
    fine += [1, 128 + number] if job.workers > 1 else []
    happened = f"{number.name} {where}: exit code {code}"
    assert code in fine, happened
    assert_resumes(job.command(inputs, folder), folder, whole(job), happened)


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
