"""Tracking of a run with MLflow, for `--track=mlflow`; the only module that imports it.

On rank 0, threads of MLflow send the lines of `metrics.jsonl` as they are written. So the training
never waits for the tracking server, and its end only for seconds. A resumed run continues its run
of MLflow.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from albert.checkpoints.model_folder import recorded_scores, recorded_settings
from albert.core import signals
from albert.core.errors import UserError, require
from albert.core.files import read_json, write_json
from albert.core.log import LOG
from albert.core.text import first_line
from albert.core.version import VERSION
from albert.settings.run_settings import MLFLOW as TRACKER
from albert.settings.run_settings import RunSettings
from albert.training import metrics
from albert.training.output_folder import MLFLOW

_SECONDS_AT_END = 15.0
# An error must not end the training.
_LOST = "--track=mlflow: MLflow has not taken all of the run: %s"
# By default, MLflow tries a request 8 times, and waits 120 seconds for each answer.
_LIMITS = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "10", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3"}


def check_installed(settings: RunSettings) -> None:
    """Raises a `UserError` if --track names a tracker that is not installed."""
    if settings.track == TRACKER:
        require("mlflow", "mlflow-skinny", "sqlalchemy", "alembic", why="--track=mlflow: ")


@contextlib.contextmanager
def tracking(settings: RunSettings, task: str, is_chief: bool) -> Iterator[Callable[[], None]]:
    """Yields a function that starts the tracking, on rank 0 only; ends it after the block.

    The function raises a `UserError` if MLflow's server or folder cannot be used.
    """
    if settings.track != TRACKER or not is_chief:
        yield lambda: None
        return
    os.environ.update({**_LIMITS, **os.environ})
    # urllib3 warns before it repeats a request.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    run, status = _Run(settings.output_dir), "FINISHED"
    try:
        yield lambda: run.start(task)
    except BaseException as e:
        status = "KILLED" if isinstance(e, signals.Stopped | KeyboardInterrupt) else "FAILED"
        raise
    finally:
        metrics.LISTENERS.clear()
        if run.id:
            thread = threading.Thread(target=run.finish, args=[status], daemon=True)
            thread.start()
            thread.join(_SECONDS_AT_END)
            if thread.is_alive():
                LOG.warning(_LOST, f"no answer within {_SECONDS_AT_END:g} s")


class _Run:
    """The run of MLflow that belongs to an output folder; `id` is "" before its start."""

    def __init__(self, folder: str):
        self._folder, self.id = folder, ""
        self._sent: list[Any] = []

    def start(self, task: str) -> None:
        import mlflow

        try:
            self._client = mlflow.MlflowClient()
            self.id = self._find_or_create(task)
        except UserError:
            raise
        except Exception as e:
            raise UserError(
                f"--track=mlflow: {mlflow.get_tracking_uri()} cannot be used: {first_line(e)}; "
                "set MLFLOW_TRACKING_URI, or remove --track"
            ) from e
        LOG.info("Tracking as run %s of MLflow in %s", self.id, mlflow.get_tracking_uri())
        metrics.LISTENERS.append(lambda line: self._send(line, line["step"], line["time"]))

    def _find_or_create(self, task: str) -> str:
        path, folder = os.path.join(self._folder, MLFLOW), os.path.abspath(self._folder)
        if os.path.exists(path):
            record = read_json(path, "the record of the tracked run")
            known = record.get("run_id") if isinstance(record, dict) else None
            if not isinstance(known, str):
                raise UserError(f"{path} has no run_id; remove it to start a new run in MLflow")
            self._client.update_run(known, status="RUNNING")
            return known
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "albert"
        experiment = self._client.get_experiment_by_name(name)
        number = experiment.experiment_id if experiment else self._client.create_experiment(name)
        tags = {"albert.task": task, "albert.version": VERSION, "albert.output_dir": folder}
        run = self._client.create_run(number, tags=tags, run_name=os.path.basename(folder))
        write_json(path, {"run_id": run.info.run_id})
        return run.info.run_id

    def _send(self, values: dict[str, Any], step: int, seconds: float, prefix: str = "") -> None:
        from mlflow.entities import Metric

        prefix = prefix or "eval/" * (values["kind"] == metrics.SCORES)
        new = [
            # Labels in the names of scores may have characters that MLflow refuses.
            Metric(re.sub(r"[^/\w.\- ]", "_", prefix + name), value, int(seconds * 1000), step)
            for name, value in values.items()
            if isinstance(value, float) and name != "time"
        ]
        try:
            self._sent.append(self._client.log_batch(self.id, new, synchronous=False))
        except Exception as e:
            LOG.warning(_LOST, first_line(e))

    def finish(self, status: str) -> None:
        """Waits until all is sent, adds the settings and the best scores, and ends the run."""
        from mlflow.entities import Param

        try:
            settings = recorded_settings(self._folder) or {}
            texts = {n: v if isinstance(v, str) else json.dumps(v) for n, v in settings.items()}
            self._client.log_batch(self.id, params=[Param(*item) for item in texts.items()])
            if self._sent and (best := recorded_scores(self._folder)):
                self._send(best, best["global_step"], time.time(), "best/")
            for operation in self._sent:
                operation.wait()
            self._client.set_terminated(self.id, status)
        except Exception as e:
            LOG.warning(_LOST, first_line(e))
