"""The steps of a run: its downloads, where training resumes, and which run may use the folder."""

import contextlib
import os
import re
import shutil
import signal
import types
from collections.abc import Callable

import pytest

from albert.core import locks, signals
from albert.core.errors import FlagError, UserError
from albert.modeling import AlbertConfig
from albert.records import DEV, TRAIN
from albert.records.batches import Data
from albert.settings.run_settings import KeptCheckpoints, RunSettings
from albert.training import job, metrics, trainer
from albert.training import run as training_run
from albert.training.job import fetch_missing
from albert.training.plan import Steps, checkpoints_to_keep
from albert.training.prepared import PreparedRun, take_folder
from albert.training.run import download
from albert.training.run import run as run_task
from albert.training.task import Task
from albert.training.trainer import CheckpointScorer
from tests.helpers.download import tar_of
from tests.helpers.files import settings_class, settings_of
from tests.helpers.running import albert, run, task_of
from tests.helpers.squad import squad_command

DATA = Data(["records"], {}, num_examples=8, num_records=8)


class SomeSettings(KeptCheckpoints, RunSettings):
    pass


def always(value: object) -> Callable[..., object]:
    return lambda self, *args: value


class NoTask(Task):
    outputs, best_by, splits, steps = ("answers.txt",), "f1", [TRAIN], always(Steps(8, 0))
    input_flags, split, model_inputs, head, score = map(always, ({}, None, {}, None, None))

    def __init__(self, settings):
        self.settings, self.config = settings, AlbertConfig(8)


@pytest.fixture
def begin(tmp_path):
    def begin(*flags: str) -> PreparedRun:
        task = NoTask(settings_of(SomeSettings, f"--output_dir={tmp_path}", *flags))
        return PreparedRun(task, {TRAIN: DATA, DEV: DATA}, {DEV: {}})

    return begin


@pytest.mark.parametrize("overwrites", [True, False])
def test_a_stopped_run_says_what_resumes_it(overwrites, tmp_path, monkeypatch):
    """Repeating a command that overwrites would lose what it has trained."""
    monkeypatch.setattr(signals._state, "resumes", True)
    flags = f"--overwrite_output_dir={overwrites}", f"--output_dir={tmp_path}"
    job.begin_job(settings_of(SomeSettings, *flags))
    changed = " without --overwrite_output_dir" * overwrites
    message = str(signals.Stopped(signal.SIGTERM))
    assert message == f"stopped by SIGTERM; the same command{changed} resumes"


@pytest.mark.parametrize("split", [TRAIN, DEV])
def test_a_training_whose_loss_does_not_fall_ends_with_a_warning(
    begin, tmp_path, monkeypatch, log, split
):
    monkeypatch.setattr(training_run, "train_run", lambda *args, **kwargs: None)
    monkeypatch.setattr(CheckpointScorer, "score", always(None))
    for step in range(1, 202, 20):
        metrics.append(str(tmp_path), metrics.TRAINING, step, {"loss": 0.69})
    training_run.finish(PreparedRun(begin().task, {split: DATA}, {split: {}}))
    warnings = [line for line in log() if line.startswith("The model has not learned its task")]
    assert len(warnings) == (split == TRAIN)


def test_a_resumed_run_ends_before_a_step_if_no_score_is_better(begin, monkeypatch, log):
    """It scores first what a killed one has left without scores."""
    run = begin("--patience=2")
    scorer, evaluation = CheckpointScorer(run), types.SimpleNamespace(since_best=lambda: 1)
    monkeypatch.setattr(CheckpointScorer, "_score_new", always(evaluation))
    monkeypatch.setattr(CheckpointScorer, "has_checkpoints", always(True))
    monkeypatch.setattr(trainer, "_begin", lambda *args: 0)
    monkeypatch.setattr(trainer, "train", None)
    assert not scorer.ends_training()
    evaluation.since_best = lambda: 2
    log()
    trainer.train_run(run, scorer)
    assert log()[-1] == "No better score in 2 checkpoints: stopping the training"


def test_a_run_locks_and_cleans_its_folder(begin, tmp_path):
    for name in (".answers.txt.abcdefgh", ".notes.txt.abcdefgh"):
        (tmp_path / name).touch()
    take_folder(begin().task)
    assert set(os.listdir(tmp_path)) == {".notes.txt.abcdefgh", "run.lock"}
    locks.release_held()
    assert os.listdir(tmp_path) == [".notes.txt.abcdefgh"]


def test_old_checkpoints_are_removed_when_not_needed(begin):
    settings = begin("--keep_checkpoint_max=3").task.settings
    for do_eval, kept in ((True, 0), (False, 3)):
        assert checkpoints_to_keep(settings.replaced(do_eval=do_eval)) == kept


@pytest.mark.parametrize(
    ("kind", "wire", "shard", "fault"),
    [
        *(("cpu", "float16", "state", None), ("cpu", "bfloat16", "none", "works on the HPU only")),
        *(("hpu", "bfloat16", "gradients", None), ("hpu", "float32", "state", None)),
        ("hpu", "float16", "none", None),
        ("hpu", "float16", "state", "reduce-scatter of habana-horovod has no float16"),
    ],
)
def test_types_that_horovod_cannot_send_are_refused(on_device, kind, wire, shard, fault):
    on_device(kind)
    settings = types.SimpleNamespace(allreduce_dtype=wire, shard_optimizer=shard, use_horovod=True)
    with pytest.raises(FlagError, match=fault) if fault else contextlib.nullcontext():
        job._check_workers(settings)


TRAIN_FILE, DEV_FILE = "train-v1.1.json", "dev-v1.1.json"


def fetch(program, *flags):
    fetch_missing(task_of(program), settings_of(settings_class(program), "--download", *flags))


@pytest.fixture
def archive(tmp_path, trained, squad_dir):
    """Places a model's archive where it would be downloaded."""
    files = {path.name: path for path in trained.glob("model.ckpt-best.*")}
    files |= {"albert_config.json": squad_dir / "albert.json"}
    files |= {"30k-clean.model": squad_dir / "spm.model"}
    content = {f"albert_base/{name}": path.read_bytes() for name, path in files.items()}
    (tmp_path / "albert_base_v2.tar.gz").write_bytes(tar_of(content))
    return tmp_path / "albert_base_v2"


@pytest.mark.parametrize("checkpoint", ["", "model.ckpt-best"])
def test_a_missing_model_is_only_fetched_on_request(archive, checkpoint):
    model = f"--init_checkpoint={archive / checkpoint}"
    fetch("run_squad_v1", model, "--nodownload")
    fetch("run_squad_v1")
    assert not archive.exists()
    fetch("run_squad_v1", model)
    assert {path.name for path in archive.iterdir()} > {"model.ckpt-best.index", "30k-clean.model"}
    (archive / "model.ckpt-best.index").unlink()
    fetch("run_squad_v1", model)
    assert not (archive / "model.ckpt-best.index").exists()


def test_only_missing_files_are_downloaded_and_failures_named(tmp_path, trained, server, publish):
    server.files |= {name: f"published {name}".encode() for name in (TRAIN_FILE, DEV_FILE)}
    publish(server.files)
    for name in ("mine/model.ckpt-7", "my model"):
        with pytest.raises(UserError, match=f"cannot download .*{name}: m.* is not a published"):
            fetch("run_squad_v1", f"--init_checkpoint={tmp_path / name}")
    with pytest.raises(UserError, match="--predict_file .*own.json does not exist, and .* no addr"):
        fetch("run_squad_v1", f"--predict_file={tmp_path / 'own.json'}")
    # A checkpoint may have any name.
    for path in trained.glob("model.ckpt-best.*"):
        shutil.copy(path, tmp_path / path.name.replace("model.ckpt-best", "weights"))
    fetch("run_squad_v1", f"--init_checkpoint={tmp_path / 'weights'}")
    folder = tmp_path / "data"
    flags = f"--train_file={folder / TRAIN_FILE}", f"--predict_file={folder / DEV_FILE}"
    fetch("run_squad_v1", *flags)
    assert (folder / TRAIN_FILE).read_bytes() == server.files[TRAIN_FILE]
    (folder / TRAIN_FILE).write_text("mine")
    (folder / DEV_FILE).unlink()
    del server.files[DEV_FILE]
    why = rf"http://127\.0\.0\.1:\d+/{DEV_FILE}: HTTP 404; check the address$"
    expected = f"^cannot download --predict_file {re.escape(str(folder / DEV_FILE))}: {why}"
    with pytest.raises(UserError, match=expected):
        fetch("run_squad_v1", *flags)
    assert [path.name for path in folder.iterdir()] == [TRAIN_FILE]
    assert (folder / TRAIN_FILE).read_text() == "mine"


@pytest.mark.parametrize(
    ("program", "flags", "words"),
    [
        ("run_squad_v1", "--train_file={}/train-v1.1.json", ["squad --splits=train --version=1.1"]),
        ("run_squad_v2", "--predict_file={}/dev-v2.0.json", ["squad --splits=dev --version=2.0"]),
        # What the job does not read, and names that are not published.
        ("run_squad_v2", "--do_train=false --train_file={}/train-v2.0.json", []),
        ("run_squad_v2", "--predict_file={}/own.json", []),
        (
            *("run_classifier", "--task_name=rte,mnli --seeds=1,2 --do_predict --data_dir={}"),
            ["glue --tasks=RTE", "glue --tasks=MNLI", "glue --tasks=diagnostic"],
        ),
        ("run_classifier", "--task_name=tsv --data_dir={}", []),
        ("run_race", "--data_dir={}", ["race"]),
    ],
)
def test_missing_data_with_a_known_name_are_downloaded(tmp_path, program, flags, words):
    settings = settings_of(settings_class(program), *flags.format(tmp_path).split())
    expected = {f"{of} --data_dir={tmp_path}" for of in words}
    assert {" ".join(of) for of in task_of(program).downloads(settings).values()} == expected


def test_a_login_node_downloads_everything_and_ends(tmp_path, archive):
    """The archive of RACE exists, so nothing is downloaded; the machine has no GPU."""
    folder = tmp_path / "RACE"
    for name in (f"{p}/{level}" for p in ("train", "dev", "test") for level in ("middle", "high")):
        (folder / name).mkdir(parents=True)
        (folder / name / "1.txt").write_text("{}")
    shutil.make_archive(str(folder), "gztar", tmp_path, "RACE")
    shutil.rmtree(folder)
    model = [f"--init_checkpoint={archive}", f"--albert_config_file={archive}/albert_config.json"]
    flags = [*model, f"--spm_model_file={archive}/30k-clean.model", f"--data_dir={tmp_path}"]
    flags += ["--download_only", "--device=gpu", "--max_seq_length=64"]
    flags += ["--max_qa_length=16", f"--output_dir={tmp_path}/out"]
    settings = settings_of(settings_class("run_race"), *flags)
    run_task(task_of("run_race"), settings)
    assert (folder / "dev/high/1.txt").exists() and (archive / "30k-clean.model").exists()
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="^--spm_model_file .* --download has no address for it"):
        run_task(task_of("run_race"), settings.replaced(spm_model_file=f"{tmp_path}/none.model"))


@pytest.mark.parametrize(
    ("program", "flags", "message"),
    [
        # The folders exist, but lack what the job reads.
        ("run_squad_v1", "--train_file={0}/own.json --init_checkpoint={0}/a.ckpt", "a.ckpt: no su"),
        ("run_classifier", "--task_name=MRPC --data_dir={0} --do_train", "MRPC/train.tsv"),
        ("run_race", "--data_dir={0} --max_qa_length=16", "RACE/train"),
        ("run_pretraining", "--input_file={0}/none --do_train", "--input_file"),
    ],
)
def test_a_login_node_reports_what_is_still_missing(tmp_path, squad_dir, program, flags, message):
    for name in ("MRPC", "RACE"):
        (tmp_path / name).mkdir()
    shutil.copy(squad_dir / TRAIN_FILE, tmp_path / "own.json")
    lengths = "--max_seq_length=64", "--max_query_length=20", "--doc_stride=16"
    settings = *lengths[: 3 if "squad" in program else 1], f"--spm_model_file={squad_dir}/spm.model"
    settings += f"--albert_config_file={squad_dir}/albert.json", f"--output_dir={tmp_path}/out"
    settings = settings_of(settings_class(program), *settings, *flags.format(tmp_path).split())
    with pytest.raises(UserError, match=message):
        download(task_of(program), settings)


def test_a_check_before_the_download_asks_for_it(tmp_path, squad_dir):
    flags = f"--train_file={tmp_path / TRAIN_FILE}", "--download"
    result = run(albert("check", *squad_command(squad_dir, tmp_path / "out", *flags)[1:]))
    *_, row, verdict = result.stdout.splitlines()
    assert result.returncode == 1 and row.split()[:3] == ["FAILS", "files", "download"]
    assert f"--train_file {tmp_path / TRAIN_FILE} does not exist yet" in row
    assert verdict == "start the job with --download_only, then check it again"
    assert not list(tmp_path.iterdir())
