"""Files that tests share or damage, and flags of programs."""

from __future__ import annotations

import contextlib
import os
import pathlib
import resource
import shutil
from collections.abc import Callable, Iterable, Iterator

import filelock
import pytest
from absl import flags

from albert.cli import pretraining_data
from albert.cli.check import find_task


def copy_of_shared(
    tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[pathlib.Path], None]
) -> pathlib.Path:
    """A folder of one's own with what the first of pytest's processes that needs it makes."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"{name}-for-all"
    is_made = shared.with_suffix(".made")
    with filelock.FileLock(f"{shared}.lock"):
        if not is_made.exists():
            shared.mkdir()
            make(shared)
            is_made.touch()
    return shutil.copytree(shared, tmp_path_factory.mktemp(name), dirs_exist_ok=True)


@contextlib.contextmanager
def limited(kind: int, value: int) -> Iterator[None]:
    """Limits a resource of this process; beyond RLIMIT_FSIZE, writing fails as on a full disk."""
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


def flags_in(text: str) -> dict[str, str | None]:
    """The flags in a text such as "seed=1 output_dir": one without a value has None."""
    pairs = (word.partition("=") for word in text.split())
    return {name: value if mark else None for name, mark, value in pairs}


@contextlib.contextmanager
def flags_taken_back() -> Iterator[set[str]]:
    """Yields the names of all flags so far; those that the block defines are gone after it."""
    before = set(flags.FLAGS)
    try:
        yield before
    finally:
        for name in set(flags.FLAGS) - before:
            delattr(flags.FLAGS, name)


def defaults_of(program: str) -> dict[str, object]:
    """The flags of a program of the reference with their defaults, aliases too."""
    with flags_taken_back() as before:
        if program == "create_pretraining_data":
            pretraining_data.define()
        else:
            find_task(f"{program}.py").define_all_flags()
        return {name: flags.FLAGS[name].default for name in set(flags.FLAGS) - before}


def write_records(path: pathlib.Path, records: Iterable[bytes]) -> str:
    """Writes a file of records; returns its path."""
    import tensorflow.compat.v1 as tf

    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return str(path)
