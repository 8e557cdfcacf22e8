"""`--track=mlflow`: what the run of MLflow has after a resume, and errors of the server."""

import contextlib
import importlib.util
import json
import logging
import socket
import time
import unittest.mock
from collections.abc import Iterator

import pytest

from albert.core.errors import UserError
from albert.settings.run_settings import RunSettings
from albert.training import metrics, tracking
from tests.helpers.checkpoints import FILE_STORE, tracked_runs


@pytest.fixture(autouse=True)
def environment():
    with unittest.mock.patch.dict("os.environ"):
        yield


@pytest.fixture
def store(tmp_path, monkeypatch):
    for name, value in FILE_STORE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tmp_path / "store"))
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "an experiment")
    return tmp_path / "store"


@pytest.fixture
def folder(tmp_path):
    """Makes the folder of a run, with a record of many settings."""
    folder = tmp_path / "out"
    folder.mkdir()
    settings = {f"flag_{n}": n for n in range(150)} | {"albert_config_file": {"text": "x" * 9000}}
    (folder / "run.json").write_text(json.dumps({"settings": settings}))
    return folder


# Labels in the names of scores may have characters that MLflow refuses.
SCORED = {"checkpoint": "model.ckpt-1", "best_by": "value", "R&D_f1": 0.5}


def track(folder, *lines, ends_with=None, start=True):
    settings = RunSettings(track="mlflow", output_dir=str(folder))
    with tracking.tracking(settings, "squad-1.1", is_chief=True) as start_tracking:
        if start:
            start_tracking()
        for kind, step, value in lines:
            metrics.append(str(folder), kind, step, {**SCORED, "value": value})
        if ends_with:
            raise ends_with


def test_a_resumed_run_repeats_and_loses_no_step(folder, store):
    """Steps that are trained again are sent once; another score of a checkpoint is sent."""
    lines = ("training", 1, 0.5), ("training", 2, 0.25), ("training", 3, 0.125), ("scores", 2, 7.0)
    with pytest.raises(ZeroDivisionError):
        track(folder, *lines, ends_with=ZeroDivisionError())
    ((run, _),) = tracked_runs(store)
    assert (run.info.status, run.data.params["flag_149"]) == ("FAILED", "149")
    assert len(run.data.params["albert_config_file"]) == 6000
    metrics.keep_until(str(folder), 2)
    metrics.keep(str(folder), lambda line: line["kind"] == "training")
    more = [("training", step, 0.125) for step in range(3, 1500)]
    track(folder, *more, ("scores", 2, 8.0))
    ((run, histories),) = tracked_runs(store)
    assert run.info.status == "FINISHED"
    assert histories["value"] == [(1, 0.5), (2, 0.25), *((step, 0.125) for step in range(3, 1500))]
    assert histories["eval/value"] == [(2, 7.0), (2, 8.0)]
    assert histories["eval/R_D_f1"] == [(2, 0.5)]


def test_a_servers_error_is_a_warning_and_the_rest_is_sent_later(folder, store, log, monkeypatch):
    track(folder, ("training", 1, 0.5))
    with monkeypatch.context() as patch:
        from mlflow import MlflowClient

        def fail(*args, **named):
            raise ConnectionError("refused\nat once")

        patch.setattr(MlflowClient, "log_batch", fail)
        log()
        track(folder, ("training", 2, 0.25))
    (warning,) = log(logging.WARNING)
    assert warning == "--track=mlflow: refused; the run continues, and sends this later"
    track(folder, ("training", 3, 0.125))
    ((_, histories),) = tracked_runs(store)
    assert histories["value"] == [(1, 0.5), (2, 0.25), (3, 0.125)]
    track(folder)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(store / "another"))
    with pytest.raises(UserError, match="^--track=mlflow: .*another cannot be used: .*not found.*"):
        track(folder)


@contextlib.contextmanager
def silent_server() -> Iterator[str]:
    """Yields the address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield "http://127.0.0.1:{1}".format(*server.getsockname())


def test_a_server_that_stops_answering_does_not_delay_the_end(folder, store, log, monkeypatch):
    """The user's variables allow more time."""
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "100")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setattr(tracking, "_SECONDS_AT_END", 0.5)
    run = tracking.MlflowRun(str(folder), "squad-1.1")
    run.start()
    with silent_server() as address:
        run._client = MlflowClient(address)
        log()
        began = time.monotonic()
        run.end("FINISHED")
        assert 0.4 < time.monotonic() - began < 5
        (warning,) = log(logging.WARNING)
        assert "has not taken everything within 0.5 s; the same command sends the rest" in warning
    run._thread.join(30)
    track(folder, ("training", 1, 0.5))
    ((tracked, histories),) = tracked_runs(store)
    assert (tracked.info.status, histories["value"]) == ("FINISHED", [(1, 0.5)])


@pytest.mark.parametrize("is_silent", [True, False])
@pytest.mark.slow
def test_a_server_that_is_down_at_first_is_one_line_soon(folder, monkeypatch, caplog, is_silent):
    """Requests are repeated without warnings; the user's own limits count."""
    monkeypatch.setitem(tracking._LIMITS, "MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    with silent_server() as silent:
        address = silent if is_silent else "http://127.0.0.1:1"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        began = time.monotonic()
        with pytest.raises(UserError, match=f"--track=mlflow: {address} cannot be used: ") as e:
            track(folder)
    assert time.monotonic() - began < 10 and "\n" not in str(e.value)
    assert not [record for record in caplog.records if record.name.startswith("urllib3")]


def test_a_damaged_record_and_a_missing_package_are_named(folder, store, monkeypatch):
    for content in ("{}", "[1]", '{"run_id": 5}'):
        (folder / "mlflow.json").write_text(content)
        with pytest.raises(UserError, match="mlflow.json has no run_id; remove it"):
            track(folder)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    tracking.check_installed(RunSettings())
    with pytest.raises(UserError, match="the package mlflow is missing: run `pip install mlf"):
        tracking.check_installed(RunSettings(track="mlflow"))
