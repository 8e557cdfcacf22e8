"""Tracking of a run with MLflow, for `--track=mlflow`; the only module that imports it.

On rank 0, threads of MLflow send the lines of `metrics.jsonl` as they are written, so the training
does not wait for the server. A resumed run continues its run of MLflow.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from albert.checkpoints.model_folder import recorded_scores, recorded_settings
from albert.core.errors import UserError, require
from albert.core.files import read_object, write_json
from albert.core.log import LOG
from albert.core.text import first_line
from albert.core.version import VERSION
from albert.settings.run_settings import MLFLOW as TRACKER
from albert.settings.run_settings import RunSettings
from albert.training import metrics
from albert.training.output_folder import MLFLOW

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
    run, status = _Run(settings.output_dir), "FAILED"
    try:
        yield lambda: run.start(task)
        status = "FINISHED"
    finally:
        if metrics.LISTENERS:
            metrics.LISTENERS.clear()
            run.finish(status)


class _Run:
    """The run of MLflow that belongs to an output folder."""

    def __init__(self, folder: str):
        self._folder, self._sent = folder, list[Any]()

    def start(self, task: str) -> None:
        import mlflow

        path, folder = os.path.join(self._folder, MLFLOW), os.path.abspath(self._folder)
        try:
            client = self._client = mlflow.MlflowClient()
            if not os.path.exists(path):
                name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "albert"
                known = client.get_experiment_by_name(name)
                number = known.experiment_id if known else client.create_experiment(name)
                tags = {"albert.task": task, "albert.version": VERSION, "albert.output_dir": folder}
                new = client.create_run(number, tags=tags, run_name=os.path.basename(folder))
                write_json(path, {"run_id": new.info.run_id})
            self._id = read_object(path, "the record of the tracked run")["run_id"]
            client.update_run(self._id, status="RUNNING")
        except Exception as e:
            raise UserError(
                f"--track=mlflow: {mlflow.get_tracking_uri()} cannot be used: {first_line(e)}; set "
                f"MLFLOW_TRACKING_URI, remove {path} for a new run in MLflow, or remove --track"
            ) from e
        LOG.info("Tracking as run %s of MLflow in %s", self._id, mlflow.get_tracking_uri())
        metrics.LISTENERS.append(self._send)

    def _send(self, line: Mapping[str, Any], prefix: str = "") -> None:
        from mlflow.entities import Metric

        prefix = prefix or "eval/" * (line["kind"] == metrics.SCORES)
        now = int(time.time() * 1000)
        new = [
            # Labels in the names of scores may have characters that MLflow refuses.
            Metric(re.sub(r"[^/\w.\- ]", "_", prefix + name), value, now, line["step"])
            for name, value in line.items()
            if isinstance(value, float) and name != "time"
        ]
        self._sent.append(self._client.log_batch(self._id, new, synchronous=False))

    def finish(self, status: str) -> None:
        """Adds the settings and the best scores, waits until all is sent, and ends the run."""
        from mlflow.entities import Param

        try:
            settings = recorded_settings(self._folder) or {}
            texts = {n: v if isinstance(v, str) else json.dumps(v) for n, v in settings.items()}
            self._client.log_batch(self._id, params=[Param(*item) for item in texts.items()])
            if self._sent and (best := recorded_scores(self._folder)):
                self._send({**best, "step": best["global_step"]}, "best/")
            for operation in self._sent:
                operation.wait()
            self._client.set_terminated(self._id, status)
        # It must not end the training.
        except Exception as e:
            LOG.warning("--track=mlflow: MLflow has not taken all of the run: %s", first_line(e))
