"""Full disks, odd names, and files and folders that change or vanish while a run uses them."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import time
from collections.abc import Callable, Iterator

from tests.faults.inputs.attempt import Attempt
from tests.faults.inputs.good import LOOP, MISSING, Content, put, spoiled, training
from tests.faults.inputs.pretraining import LEARN, MAKE
from tests.helpers.forking import LONGEST

_EXTRACT = (
    *("embed", "--input_file={w}/text.txt", "--output_file={t}/out", "--layers=-1"),
    "--init_checkpoint={w}/squad",
)
_PAGE = ("show", "{w}/squad", "--data={w}/dev-v1.1.json", "--page={t}/page.html")
# Programs that import TensorFlow first fail in its import when they may write no file.
_WITHOUT_ANY_FILE = {
    **{"squad": training("run_squad_v1"), "squad2": training("run_squad_v2")},
    **{"classifier": training("run_classifier"), "race": training("run_race"), "page": _PAGE},
}
_PROGRAMS = {
    **_WITHOUT_ANY_FILE,
    **{"convert": ("convert", "{w}/squad", "{t}/new"), "extract": _EXTRACT},
    **{"extract-npz": (*_EXTRACT, "--output_format=npz"), "sentencepiece": LEARN, "records": MAKE},
}
_PRINTING = {
    "ask": ("ask", "{w}/squad", "--context", "A cat sat.", "--question", "Who?"),
    "show": ("show", "{w}/squad"),
    "evaluate": ("evaluate", "{w}/squad/predictions.json", "--data={w}/dev-v1.1.json"),
    "check": ("check", *training("run_squad_v1"), "--json"),
}
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
_NAMES = ("ü 日本 \U0001f389", "with space", "a,b", "a%20b", "{0}", "$HOME", "a=b", "-x")
_LONG = ("--train_steps=100000", "--save_checkpoints_steps=20", "--do_predict=false")


def attempts() -> Iterator[Attempt]:
    """Yields all attempts of the group."""
    for name, command in _PROGRAMS.items():
        for blocks in (0, 1, 16) if name in _WITHOUT_ANY_FILE else (1, 16):
            start, says = _with_files_of(blocks), "cannot be|written|large|space|room"
            yield Attempt(f"{name}-files-of-{blocks}-KiB", command, says, start=start)
    for name, command in _PRINTING.items():
        yield Attempt(f"{name}-to-a-full-disk", command, "output|space|stdout", start=_to_full_disk)
    files = {
        **{"train_file": "train-v1.1.json", "predict_file": "dev-v1.1.json"},
        **{"spm_model_file": "spm.model", "albert_config_file": "albert.json"},
    }
    given = [f"--{flag}={{t}}/{name}" for flag, name in files.items()]
    command = training("run_squad_v1", *given, *_LONG)
    make = spoiled("", "", *files.values())
    for file, content in _MEANWHILE:
        # The input may be unharmed; then a signal ends the program.
        then, name = _then(file, content), f"meanwhile-{file}-becomes-{str(content)[:12]}"
        yield Attempt(name, command, "out|train|spm|albert", make, lambda *_: True, start=then)
    others = spoiled("out/model.ckpt-5.index", "no checkpoint")
    yield Attempt("a-checkpoint-of-others", training("run_squad_v1"), "out", others)
    for name in _NAMES:

        def has_weights(result, folder, name=name) -> bool:
            return (folder / name / "model.ckpt-2.index").exists()

        command = training("run_squad_v1", "--do_predict=false", f"--output_dir={{t}}/{name}")
        yield Attempt(f"output_dir-{name}", command, holds=has_weights, must_end_well=True)


def _run(command: list[str], folder: pathlib.Path, **more) -> subprocess.CompletedProcess:
    kwargs = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.run(command, cwd=folder, text=True, timeout=LONGEST, **kwargs)


def _with_files_of(kib: int) -> Callable[[list[str], pathlib.Path], subprocess.CompletedProcess]:
    """Starts a command whose files may not grow beyond a size; its output goes to a pipe."""
    limited = ["bash", "-c", f'ulimit -f {kib}; exec "$@"', "bash"]
    return lambda command, folder: _run([*limited, *command], folder)


def _to_full_disk(command: list[str], folder: pathlib.Path) -> subprocess.CompletedProcess:
    with open("/dev/full", "w") as nowhere:
        result = _run(command, folder, stdout=nowhere)
    return subprocess.CompletedProcess(command, result.returncode, "", result.stderr)


def _then(
    file: str, content: Content
) -> Callable[[list[str], pathlib.Path], subprocess.CompletedProcess]:
    """Starts a run, changes a file's content after its first checkpoint, and stops the run 5 s
    later."""

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
