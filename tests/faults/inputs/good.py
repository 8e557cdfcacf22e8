"""Good inputs, which attempts spoil copies of: data, tokenizers, trained models of three tasks."""

from __future__ import annotations

import json
import pathlib
import shutil
import sys
from collections.abc import Callable

from tests.faults.inputs.attempt import Make
from tests.faults.jobs import Job, make_inputs
from tests.helpers.forking import ROOT
from tests.helpers.running import run

# Folder of a run and its program.
_RUNS = {"squad": "run_squad_v1", "squad2": "run_squad_v2", "mrpc": "run_classifier"}


def make_good(folder: pathlib.Path) -> None:
    """Writes the inputs of `tests.faults.jobs`, runs, and a folder of transformers, `hf`."""
    make_inputs(folder)
    for name, program in _RUNS.items():
        flags = ("--train_steps=4",) if "squad" in name else ("--train_step=4",)
        _succeed(Job("", program, 1, flags).first_command(folder, folder / name))
    convert = str(ROOT / "convert_checkpoint.py")
    _succeed([sys.executable, convert, str(folder / "squad"), str(folder / "hf")])


def _succeed(command: list[str]) -> None:
    result = run(command)
    if result.returncode:
        sys.exit(f"{result.stderr}\nthe good inputs could not be made: {' '.join(command)}")


def copied(source: str, then: Callable[[pathlib.Path], object] | None = None) -> Make:
    """Makes a copy of a good file or folder in the attempt's, and does something to it."""

    def make(good: pathlib.Path, folder: pathlib.Path) -> None:
        target = folder / source
        if (good / source).is_dir():
            shutil.copytree(good / source, target)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(good / source, target)
        if then:
            then(target)

    return make


def written(name: str, content: str | bytes) -> Make:
    """Writes a file into the attempt's folder."""

    def make(good: pathlib.Path, folder: pathlib.Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return make


def replaced(source: str, file: str, content: str | bytes) -> Make:
    """Copies a folder and gives one of its files another content."""
    data = content if isinstance(content, bytes) else content.encode()
    return copied(source, lambda folder: (folder / file).write_bytes(data))


def with_json(source: str, change: Callable[[dict], object], file: str = "") -> Make:
    """Copies a JSON file, or a folder with one, and changes what it holds in place."""

    def then(target: pathlib.Path) -> None:
        path = target / file if file else target
        content = json.loads(path.read_text(encoding="utf-8"))
        change(content)
        path.write_text(json.dumps(content), encoding="utf-8")

    return copied(source, then)


def with_bytes(source: str, change: Callable[[bytes], bytes], file: str = "") -> Make:
    """Copies a file, or a folder with one, and changes its bytes."""

    def then(target: pathlib.Path) -> None:
        path = target / file if file else target
        path.write_bytes(change(path.read_bytes()))

    return copied(source, then)
