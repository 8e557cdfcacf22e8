"""Good inputs, and damaged copies of them: data, tokenizers, trained models of three tasks."""

from __future__ import annotations

import json
import pathlib
import shutil
import sys
from collections.abc import Callable
from typing import Any

from tests.faults.jobs import FLAGS, Job, make_inputs
from tests.helpers.running import albert, run

# The folder of a run and its program.
_RUNS = {"squad": "run_squad_v1", "squad2": "run_squad_v2", "mrpc": "run_classifier"}
MISSING, LOOP = "no file", "a link to itself"
# The new content of a file: text or bytes, a folder (None), MISSING, LOOP, the name of a good file,
# or a function of its bytes.
Content = str | bytes | None | pathlib.PurePath | Callable[[bytes], str | bytes]
Make = Callable[[pathlib.Path, pathlib.Path], object]
# Content that no text file has.
BAD: dict[str, Content] = {
    "empty": "",
    "binary": bytes(range(256)) * 10,
    "zeros": bytes(5000),
    "utf-16": '{"data": []}\n'.encode("utf-16"),
}


def make_good(folder: pathlib.Path) -> None:
    """Writes the inputs of `tests.faults.jobs`, runs, and a folder of transformers, `hf`."""
    make_inputs(folder)
    commands = [
        Job("", program, 1, (f"--{steps_flag(program)}=4",)).first_command(folder, folder / name)
        for name, program in _RUNS.items()
    ]
    for command in (*commands, albert("convert", f"{folder}/squad", f"{folder}/hf")):
        result = run(command)
        if result.returncode:
            sys.exit(f"{result.stderr}\nno good inputs could be made: {' '.join(command)}")


def steps_flag(program: str) -> str:
    """Returns the flag for the number of steps that a program trains."""
    short = {"run_pretraining": "num_train_steps", "run_classifier": "train_step"}
    return short.get(program, "train_step" if program == "run_race" else "train_steps")


def training(program: str, *flags: str) -> tuple[str, ...]:
    """Returns the command of two steps of a program on good inputs; later flags win."""
    given = [flag.format("{w}") for flag in FLAGS[program]]
    return (program, *given, f"--{steps_flag(program)}=2", "--output_dir={t}/out", *flags)


def spoiled(files: str, content: Content, *copies: str) -> Make:
    """Copies good files and folders, and gives some files another content."""

    def make(good: pathlib.Path, folder: pathlib.Path) -> None:
        for source in copies:
            copy = shutil.copytree if (good / source).is_dir() else shutil.copy
            copy(good / source, folder / source)
        for name in files.split():
            put(folder / name, content, good)

    return make


def put(path: pathlib.Path, content: Content, good: pathlib.Path) -> None:
    """Gives a file another content, in place, so that its users continue."""
    data = content(path.read_bytes()) if callable(content) else content
    if isinstance(data, pathlib.PurePath):
        data = (good / data).read_bytes()
    if path.is_dir():
        # At once, although a run is writing into it.
        shutil.rmtree(path.rename(path.with_name(f"{path.name}-removed")), ignore_errors=True)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if data is None:
        path.mkdir()
    elif data == LOOP:
        path.symlink_to(path)
    elif data != MISSING:
        path.write_bytes(data if isinstance(data, bytes) else data.encode())


def half(data: bytes) -> bytes:
    """Returns the first half of a file."""
    return data[: len(data) // 2]


def with_key(key: str, value: Any) -> Callable[[bytes], str]:
    """Returns a function that sets a key of a JSON object to another value."""
    return lambda data: json.dumps({**json.loads(data), key: value})
