"""`--track=mlflow`: what the run of MLflow has after a resume, and errors of the server."""

import importlib.util
import json
import logging
import socket
import time
import unittest.mock

import pytest

from albert.core.errors import UserError
from albert.settings.run_settings import RunSettings
from albert.training import metrics, tracking
from tests.helpers.checkpoints import FILE_STORE, tracked_runs


@pytest.fixture
def store(tmp_path, monkeypatch):
    for name, value in FILE_STORE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tmp_path / "store"))
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "an experiment")
    return tmp_path / "store"


@pytest.fixture
def folder(tmp_path):
    """Makes the folder of a run, with a record of many settings; undoes what tracking sets."""
    folder = tmp_path / "out"
    folder.mkdir()
    settings = {f"flag_{n}": n for n in range(150)} | {"albert_config_file": {"text": "x" * 9000}}
    (folder / "run.json").write_text(json.dumps({"settings": settings}))
    with unittest.mock.patch.dict("os.environ"):
        yield folder


# Labels in the names of scores may have characters that MLflow refuses.
SCORED = {"checkpoint": "model.ckpt-1", "best_by": "value", "R&D_f1": 0.5}


def track(folder, *lines, ends_with=None):
    settings = RunSettings(track="mlflow", output_dir=str(folder))
    with tracking.tracking(settings, "squad-1.1", is_chief=True) as start_tracking:
        start_tracking()
        for kind, step, value in lines:
            metrics.append(str(folder), kind, step, {**SCORED, "value": value})
        if ends_with:
            raise ends_with


def test_a_resumed_run_continues_its_run(folder, store):
    with pytest.raises(ZeroDivisionError):
        lines = ("training", 1, 0.5), ("training", 2, 0.25), ("scores", 2, 7.0)
        track(folder, *lines, ends_with=ZeroDivisionError())
    ((run, _),) = tracked_runs(store)
    assert (run.info.status, run.data.params["flag_149"]) == ("FAILED", "149")
    assert run.info.run_id == json.loads((folder / "mlflow.json").read_text())["run_id"]
    assert run.info.run_name == "out" and run.data.tags["albert.output_dir"] == str(folder)
    assert len(run.data.params["albert_config_file"]) == 6000
    track(folder, *(("training", step, 0.125) for step in range(3, 1500)), ("scores", 9, 8.0))
    ((run, histories),) = tracked_runs(store)
    assert run.info.status == "FINISHED"
    assert histories["value"] == [(1, 0.5), (2, 0.25), *((step, 0.125) for step in range(3, 1500))]
    assert histories["eval/value"] == [(2, 7.0), (9, 8.0)]
    assert histories["eval/R_D_f1"] == [(2, 0.5), (9, 0.5)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", str(store / "another"))
        message = "^--track=mlflow: .*another cannot be used: .*not found.*"
        with pytest.raises(UserError, match=message):
            track(folder)


def test_what_mlflow_does_not_take_is_a_warning(folder, store, log, monkeypatch):
    """It does not end the run."""
    from mlflow.store.tracking.file_store import FileStore

    monkeypatch.setattr(FileStore, "log_batch", lambda *args, **named: 1 / 0)
    track(folder, ("training", 2, 0.25))
    (warning,) = log(logging.WARNING)
    assert warning == "--track=mlflow: MLflow has not taken all of the run: division by zero"


@pytest.mark.parametrize("is_silent", [True, False])
@pytest.mark.slow
def test_a_server_that_is_down_at_first_is_one_line_soon(folder, monkeypatch, is_silent):
    """It refuses connections, or accepts them and never answers. The user's own limits count."""
    monkeypatch.setitem(tracking._LIMITS, "MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1] if is_silent else 1}"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        began = time.monotonic()
        with pytest.raises(UserError, match=f"--track=mlflow: {address} cannot be used: ") as e:
            track(folder)
    assert time.monotonic() - began < 10 and "\n" not in str(e.value)


def test_a_damaged_record_and_a_missing_package_are_named(folder, store, monkeypatch):
    for content in ("{}", "[1]", '{"run_id": 5}'):
        (folder / "mlflow.json").write_text(content)
        with pytest.raises(UserError, match="cannot be used: .*, remove .*mlflow.json for a new"):
            track(folder)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    tracking.check_installed(RunSettings())
    with pytest.raises(UserError, match="the package mlflow is missing: run `pip install mlf"):
        tracking.check_installed(RunSettings(track="mlflow"))
