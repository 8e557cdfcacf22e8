"""Disks that are full, and files and folders that change or vanish while a run uses them."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator

from tests.faults.inputs.attempt import Attempt
from tests.faults.inputs.data import training
from tests.faults.inputs.good import copied, written
from tests.helpers.forking import LONGEST

_CONVERT = ("convert_checkpoint", "{w}/squad", "{t}/new")
_EXTRACT = (
    *("extract_features", "--input_file={w}/text.txt", "--output_file={t}/out", "--layers=-1"),
    "--init_checkpoint={w}/squad",
)
_SENTENCEPIECE = (
    *("train_sentencepiece", "--input_file={w}/text.txt", "--model_prefix={t}/new"),
    "--vocab_size=100",
)
_RECORDS = (
    *("create_pretraining_data", "--input_file={w}/topics.txt", "--output_file={t}/new"),
    *("--spm_model_file={w}/spm.model", "--max_seq_length=48", "--max_predictions_per_seq=6"),
)
_PAGE = ("show_predictions", "{w}/squad", "--data={w}/dev-v1.1.json", "--page={t}/page.html")
_PROGRAMS = {
    "squad": training("run_squad_v1"),
    "squad2": training("run_squad_v2"),
    "classifier": training("run_classifier"),
    "race": training("run_race"),
    "convert": _CONVERT,
    "extract": _EXTRACT,
    "extract-npz": (*_EXTRACT, "--output_format=npz"),
    "sentencepiece": _SENTENCEPIECE,
    "records": _RECORDS,
    "page": _PAGE,
}
_WITHOUT_ANY_FILE = ("squad", "squad2", "classifier", "race", "page")
_LONG = ("--train_steps=100000", "--save_checkpoints_steps=20", "--do_predict=false")


def attempts() -> Iterator[Attempt]:
    """All of the group."""
    for name, command in _PROGRAMS.items():
        # Those that import TensorFlow before all else fail in its import without any file.
        for blocks in (0, 1, 16) if name in _WITHOUT_ANY_FILE else (1, 16):
            says = "cannot be|written|large|space|room"
            yield Attempt(
                f"{name}-files-of-{blocks}-KiB", command, says, start=_with_files_of(blocks)
            )
    yield from _outputs()
    yield from _meanwhile()


def _with_files_of(kib: int) -> Callable[[list[str], pathlib.Path], subprocess.CompletedProcess]:
    """Starts a command whose files may not grow beyond a size; what it prints goes to a pipe."""

    def start(command: list[str], folder: pathlib.Path) -> subprocess.CompletedProcess:
        limited = ["bash", "-c", f'ulimit -f {kib}; exec "$@"', "bash", *command]
        return _run(limited, folder)

    return start


def _run(command: list[str], folder: pathlib.Path, **more) -> subprocess.CompletedProcess:
    kwargs = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.run(command, cwd=folder, text=True, timeout=LONGEST, **kwargs)


def _outputs() -> Iterator[Attempt]:
    """Standard output on a full disk."""

    def full(command: list[str], folder: pathlib.Path) -> subprocess.CompletedProcess:
        with open("/dev/full", "w") as nowhere:
            result = _run(command, folder, stdout=nowhere)
        return subprocess.CompletedProcess(command, result.returncode, "", result.stderr)

    asked = ("ask", "{w}/squad", "--context", "A cat sat.", "--question", "Who?")
    programs = {
        "ask": asked,
        "ask-json": (*asked, "--json"),
        "evaluate": ("evaluate", "{w}/squad/predictions.json", "--data={w}/dev-v1.1.json"),
        "evaluate-json": ("evaluate", "{w}/squad", "{w}/squad", "--json"),
        "show": ("show_predictions", "{w}/squad"),
        "check": ("check_setup", *training("run_squad_v1"), "--json"),
    }
    for name, command in programs.items():
        yield Attempt(f"{name}-to-a-full-disk", command, "output|space|stdout", start=full)


def _meanwhile() -> Iterator[Attempt]:
    """What happens to files behind the first checkpoint of a run that goes on; then it is stopped.

    It may be unharmed, and says so by what a signal ends it with.
    """

    def vanish(name: str) -> Callable[[pathlib.Path], None]:
        def act(folder: pathlib.Path) -> None:
            path = folder / name
            # The run goes on writing meanwhile.
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

        return act

    def become(name: str, content: bytes | None) -> Callable[[pathlib.Path], None]:
        def act(folder: pathlib.Path) -> None:
            vanish(name)(folder)
            path = folder / name
            path.mkdir() if content is None else path.write_bytes(content)

        return act

    def swap(name: str, other: str) -> Callable[[pathlib.Path], None]:
        return lambda folder: shutil.copy(folder / other, folder / name)

    def loop(name: str) -> Callable[[pathlib.Path], None]:
        def act(folder: pathlib.Path) -> None:
            vanish(name)(folder)
            os.symlink(name, folder / name)

        return act

    acts = {
        "out-is-a-file": become("out", b""),
        "out-is-a-loop": loop("out"),
        "assets-vanish": vanish("out/assets.extra"),
        "assets-are-a-file": become("out/assets.extra", b""),
        "record-vanishes": vanish("out/run.json"),
        "record-is-a-folder": become("out/run.json", None),
        "pointer-is-a-folder": become("out/checkpoint", None),
        "pointer-is-binary": become("out/checkpoint", bytes(99)),
        "checkpoint-vanishes": vanish("out/model.ckpt-20.index"),
        "checkpoint-is-empty": become("out/model.ckpt-20.data-00000-of-00001", b""),
        "features-vanish": vanish("out/train.tf_record"),
        "features-are-empty": become("out/train.tf_record", b""),
        "features-are-cut-text": become("out/train.tf_record", b"no record" * 99),
        "input-vanishes": vanish("train-v1.1.json"),
        "input-is-another": swap("train-v1.1.json", "dev-v1.1.json"),
        "tokenizer-vanishes": vanish("spm.model"),
        "tokenizer-is-binary": become("spm.model", bytes(999)),
        "config-vanishes": vanish("albert.json"),
    }
    files = ("train-v1.1.json", "dev-v1.1.json", "spm.model", "albert.json")
    places = ("train_file", "predict_file", "spm_model_file", "albert_config_file")
    given = [f"--{flag}={{t}}/{name}" for flag, name in zip(places, files, strict=True)]
    command = training("run_squad_v1", *given, *_LONG)

    def make(good: pathlib.Path, folder: pathlib.Path) -> None:
        for name in files:
            copied(name)(good, folder)

    for name, act in acts.items():
        says = "out|train|spm|albert"
        yield Attempt(f"meanwhile-{name}", command, says, make, _anything, start=_then(act))
    written_as = written("out/model.ckpt-5.index", "no checkpoint")
    yield Attempt("a-checkpoint-of-others", training("run_squad_v1"), "out", written_as)


def _anything(result: subprocess.CompletedProcess, folder: pathlib.Path) -> bool:
    return True


def _then(
    act: Callable[[pathlib.Path], None],
) -> Callable[[list[str], pathlib.Path], subprocess.CompletedProcess]:
    """Starts a run, does something behind its first checkpoint, and stops it 5 s later."""

    def start(command: list[str], folder: pathlib.Path) -> subprocess.CompletedProcess:
        with open(folder / "log", "w+") as log:
            process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
            deadline = time.monotonic() + LONGEST
            while not (folder / "out/model.ckpt-20.index").exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    break
                time.sleep(0.02)
            try:
                act(folder)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(5)
                process.terminate()
                code = process.wait(LONGEST)
            finally:
                process.kill()
            log.seek(0)
            # Stopped in good order is as good as an end.
            return subprocess.CompletedProcess(command, 0 if code == 143 else code, "", log.read())

    return start
