"""Files that tests share or damage, and flags of programs."""

import contextlib
import os
import pathlib
import resource
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping

import filelock
import pytest
from absl import flags

from albert.cli.check import find_task
from albert.cli.pretraining_data import PretrainingDataSettings
from albert.settings.fields import AnySettings, Settings


def copy_of_shared(
    tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[pathlib.Path], None]
) -> pathlib.Path:
    """Returns a copy, for one test module, of what the first pytest process to need it makes."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"{name}-for-all"
    is_made = shared.with_suffix(".made")
    with filelock.FileLock(f"{shared}.lock"):
        if not is_made.exists():
            shared.mkdir()
            make(shared)
            is_made.touch()
    return shutil.copytree(shared, tmp_path_factory.mktemp(name), dirs_exist_ok=True)


def write_files(folder: pathlib.Path, files: Mapping[str, str]) -> str:
    """Writes text files and scripts by their paths in a folder, such as /; returns the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o755 if content.startswith("#!") else 0o644)
    return str(folder)


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    """Returns the content of each file below a folder, by its path there."""
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


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
    """Returns the flags in a text such as "seed=1 output_dir"; one without a value has None."""
    pairs = (word.partition("=") for word in text.split())
    return {name: value if mark else None for name, mark, value in pairs}


def settings_of(kind: type[AnySettings], *arguments: object) -> AnySettings:
    values = flags.FlagValues()
    kind.define_flags(values)
    values(["program", *map(str, arguments)])
    return kind.from_flags(values)


def settings_class(program: str) -> type[Settings]:
    if program == "create_pretraining_data":
        return PretrainingDataSettings
    return find_task(f"{program}.py").load("settings")


def defaults_of(program: str) -> dict[str, object]:
    """Returns the flags of a reference program with their defaults, including aliases."""
    values = flags.FlagValues()
    settings_class(program).define_flags(values)
    return {name: values[name].default for name in values}


def write_records(path: pathlib.Path, records: Iterable[bytes]) -> str:
    import tensorflow.compat.v1 as tf

    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    return str(path)


DOWNLOADED = {
    "squad": "train-v1.1.json dev-v1.1.json train-v2.0.json dev-v2.0.json",
    **{"glue": "", "RACE": ""},
    "albert_base_v2": "albert_config.json 30k-clean.model model.ckpt-best.index",
    "albert_base_zh": "albert_config.json vocab_chinese.txt model.ckpt-best.index",
    "bert_base": "bert_config.json vocab.txt bert_model.ckpt.index",
}


def fill(folder: pathlib.Path) -> None:
    """Makes a folder of empty files, as `download/` would fill it."""
    for name, files in DOWNLOADED.items():
        (folder / name).mkdir(parents=True)
        for file in files.split():
            (folder / name / file).touch()
