r"""Gives the programs full disks, odd names, and files that change or vanish meanwhile.

  python -m tests.faults.inputs [--only=NAME] [--keep=FOLDER]

Each program must refuse them in one line, or use them. Ends with 1 if one behaves otherwise, after
its output. With --keep, the good inputs and the leftovers of bad attempts stay, and the good ones
are used again.
"""

import argparse
import contextlib
import fnmatch
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.faults.jobs import Job, make_inputs
from tests.helpers.forking import LONGEST
from tests.helpers.running import command_of, run, succeed
from tests.helpers.tiny_runs import FLAGS

# The most seconds that a program with little to do may take, on two busy cores.
SECONDS = 60.0
MISSING, LOOP = "no file", "a link to itself"
# The new content of a file: bytes, a folder (None), MISSING, LOOP, or the name of a good file.
Content = str | bytes | None | pathlib.PurePath
Start = Callable[[list[str], pathlib.Path], subprocess.CompletedProcess]


class Attempt(NamedTuple):
    """A program with a bad input.

    Attributes:
      command: the program without .py, and its arguments; {w} is the folder of good inputs, {t} a
        separate folder for this attempt, its working folder.
      refusal: a regular expression that the line of a refusal must match: the file, the flag or the
        key. The program must refuse within `SECONDS`, with exit code 1 or 2, in one line; None if
        it must succeed.
      result: a file that a success must leave; None if the program must not succeed.
      make: makes the bad input, given both folders.
      start: runs the command.
    """

    name: str
    command: tuple[str, ...]
    refusal: str | None
    result: str | None = None
    make: Callable[[pathlib.Path, pathlib.Path], object] = lambda good, folder: None
    start: Start = lambda command, folder: run(command, cwd=folder)


def training(program: str, *flags: str) -> tuple[str, ...]:
    """Returns the command of two steps of a program on good inputs; later flags win."""
    given = [flag.format(squad="{w}", folder="{w}") for flag in FLAGS[program]]
    return (program, *given, "--train_steps=2", "--from_scratch", "--output_dir={t}/out", *flags)


def put(path: pathlib.Path, content: Content, good: pathlib.Path) -> None:
    """Gives a file another content, in place, so that its users continue."""
    if path.is_dir():
        # At once, although a run is writing into it.
        shutil.rmtree(path.rename(path.with_name(f"{path.name}-removed")), ignore_errors=True)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        path.mkdir()
    elif isinstance(content, pathlib.PurePath):
        shutil.copy(good / content, path)
    elif content == LOOP:
        path.symlink_to(path)
    elif content != MISSING:
        path.write_bytes(content)


_EXTRACT = (
    *("embed", "--input_file={w}/text.txt", "--output_file={t}/out", "--layers=-1"),
    "--init_checkpoint={w}/squad",
)
_TRAIN = training("run_squad_v1")
# Changes of files and folders after the first checkpoint of a run that continues.
_MEANWHILE: tuple[tuple[str, Content], ...] = (
    *(("out", b""), ("out", LOOP), ("out/assets.extra", MISSING), ("out/assets.extra", b"")),
    *(("out/run.json", MISSING), ("out/run.json", None)),
    *(("out/checkpoint", None), ("out/checkpoint", bytes(99))),
    *(("out/model.ckpt-20.index", MISSING), ("out/model.ckpt-20.data-00000-of-00001", b"")),
    *(("out/train.tf_record", MISSING), ("out/train.tf_record", b"")),
    *(("out/train.tf_record", b"no record" * 99), ("train-v1.1.json", MISSING)),
    *(("train-v1.1.json", pathlib.PurePath("dev-v1.1.json")), ("spm.model", MISSING)),
    *(("spm.model", bytes(999)), ("albert.json", MISSING)),
)
# Programs that import TensorFlow first fail in its import when they may write no file.
_WITHOUT_ANY_FILE = {
    **{"squad": _TRAIN, "squad2": training("run_squad_v2")},
    "classifier": training("run_classifier"),
    "page": ("show", "{w}/squad", "--data={w}/dev-v1.1.json"),
}
_WRITING = {
    **{**_WITHOUT_ANY_FILE, "convert": ("convert", "{w}/squad", "{t}/new"), "extract": _EXTRACT},
    "extract-npz": (*_EXTRACT, "--output_file={t}/new.npz"),
    "sentencepiece": (
        *("sentencepiece", "--input_file={w}/text.txt", "--model_prefix={t}/new"),
        "--vocab_size=100",
    ),
    "records": (
        *("create_pretraining_data", "--input_file={w}/topics.txt", "--output_file={t}/new"),
        *("--spm_model_file={w}/spm.model", "--max_seq_length=48", "--max_predictions_per_seq=6"),
    ),
}


def attempts() -> Iterator[Attempt]:
    for name, command in _WRITING.items():
        for kib in (0, 1, 16) if name in _WITHOUT_ANY_FILE else (1, 16):
            says = "cannot be|written|large|space|room"
            yield Attempt(f"{name}-files-of-{kib}-KiB", command, says, start=_limited_to(kib))
    files = {
        **{"train_file": "train-v1.1.json", "predict_file": "dev-v1.1.json"},
        **{"spm_model_file": "spm.model", "albert_config_file": "albert.json"},
    }
    given = [f"--{flag}={{t}}/{name}" for flag, name in files.items()]
    given += ["--train_steps=100000", "--save_checkpoints_steps=20", "--do_predict=false"]

    def copy(good: pathlib.Path, folder: pathlib.Path) -> None:
        for name in files.values():
            shutil.copy(good / name, folder / name)

    for file, content in _MEANWHILE:
        name = f"meanwhile-{file}-becomes-{str(content)[:12]}"
        # The input may be unharmed; then a signal ends the program.
        then, says = _then(file, content), "out|train|spm|albert"
        yield Attempt(name, (*_TRAIN, *given), says, "log", copy, then)

    def others(good: pathlib.Path, folder: pathlib.Path) -> None:
        put(folder / "out/model.ckpt-5.index", b"no checkpoint", good)

    yield Attempt("a-checkpoint-of-others", _TRAIN, "out", make=others)
    for name in ("ü 日本 \U0001f389", "with space", "a,b", "a%20b", "{0}", "$HOME", "a=b", "-x"):
        command = (*_TRAIN, "--do_predict=false", f"--output_dir={{t}}/{name}")
        yield Attempt(f"output_dir-{name}", command, None, f"{name}/model.ckpt-2.index")


def _limited_to(kib: int) -> Start:
    """Runs a program whose files may not grow beyond a size; its output goes to a pipe."""
    limited = ["bash", "-c", f'ulimit -f {kib}; exec "$@"', "bash"]
    return lambda command, folder: run([*limited, *command], cwd=folder)


def _then(file: str, content: Content) -> Start:
    """Changes a file after the first checkpoint of a run, which is stopped 5 s later."""

    def start(command: list[str], folder: pathlib.Path) -> subprocess.CompletedProcess:
        with open(folder / "log", "w+") as log:
            process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
            deadline = time.monotonic() + LONGEST
            while not (folder / "out/model.ckpt-20.index").exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    break
                time.sleep(0.02)
            try:
                put(folder / file, content, folder)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(5)
                process.terminate()
                code = process.wait(LONGEST)
            finally:
                process.kill()
            log.seek(0)
            # An orderly stop is as good as an end.
            return subprocess.CompletedProcess(command, 0 if code == 143 else code, "", log.read())

    return start


def problem_of(attempt: Attempt, good: pathlib.Path, folder: pathlib.Path) -> str | None:
    """Runs an attempt in a separate folder; returns what is wrong with its end, or None."""
    folder.mkdir(parents=True)
    attempt.make(good, folder)
    program, *arguments = attempt.command
    folders = {"{w}": str(good), "{t}": str(folder)}
    given = [re.sub(r"\{[wt]\}", lambda match: folders[match.group()], text) for text in arguments]
    command = [*command_of(program), *given]
    began = time.monotonic()
    result = attempt.start(command, folder)
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
    if result.returncode == 0 and attempt.result:
        return None if (folder / attempt.result).exists() else f"no {attempt.result}"
    if result.returncode not in (1, 2) or attempt.refusal is None:
        return f"exit code {result.returncode}"
    lines = [line for line in result.stderr.splitlines() if re.match(r"[\w. -]+: error: ", line)]
    if len(lines) == 1 and re.search(attempt.refusal, lines[0]):
        return None
    return f"{len(lines)} lines of error, or a line without {attempt.refusal!r}"


def main() -> None:
    """Runs the chosen attempts, and prints those that end badly."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--only", default="*", help="a name, or a pattern such as 'ask-*'")
    parser.add_argument("--keep", type=pathlib.Path)
    arguments = parser.parse_args()
    chosen = [attempt for attempt in attempts() if fnmatch.fnmatch(attempt.name, arguments.only)]
    bad = 0
    with tempfile.TemporaryDirectory() as temporary:
        work = (arguments.keep or pathlib.Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        good = work / "good"
        if not good.exists():
            # The inputs of `tests.faults.jobs`, and a run.
            make_inputs(good)
            succeed(Job("", "run_squad_v1", 1, "--train_steps=4").command(good, good / "squad"))
        for number, attempt in enumerate(chosen, start=1):
            # Without the attempt's name, which contains words that a message must have.
            folder = work / str(number)
            shutil.rmtree(folder, ignore_errors=True)
            if problem := problem_of(attempt, good, folder):
                bad += 1
                print(f"\nBAD {attempt.name}: {problem}", flush=True)
    print(f"{len(chosen)} attempts, {bad} bad")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
