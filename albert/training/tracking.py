"""Tracking of a run with MLflow, for `--track=mlflow`; the only module that imports it.

A thread on rank 0 sends the lines of `metrics.jsonl` as they come, so the training never waits for
the tracking server, and its end only for seconds. MLflow's own asynchronous logging would wait at
the end until all is sent, and repeats nothing that failed. A resumed run continues its run of
MLflow, and sends only what is missing.
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
from albert.training.run_record import MLFLOW

_SECONDS_BETWEEN = 5.0
_SECONDS_AT_END = 15.0
# By default, MLflow tries a request 8 times, and waits 120 seconds for each answer.
_LIMITS = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "10", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3"}
_EXPERIMENT = "MLFLOW_EXPERIMENT_NAME"


def check_installed(settings: RunSettings) -> None:
    """Raises a `UserError` if --track names a tracker that is not installed."""
    if settings.track == TRACKER:
        require("mlflow", "mlflow-skinny", "sqlalchemy", "alembic", why="--track=mlflow: ")


@contextlib.contextmanager
def tracking(settings: RunSettings, task: str, is_chief: bool) -> Iterator[Callable[[], None]]:
    """Yields a function that starts the tracking, on rank 0 only; ends it after the block."""
    if settings.track != TRACKER or not is_chief:
        yield lambda: None
        return
    for name, value in _LIMITS.items():
        os.environ.setdefault(name, value)
    # urllib3 warns before it repeats a request.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    run, status = MlflowRun(settings.output_dir, task), "FINISHED"
    try:
        yield run.start
    except (signals.Stopped, KeyboardInterrupt):
        status = "KILLED"
        raise
    except BaseException:
        status = "FAILED"
        raise
    finally:
        run.end(status)


class MlflowRun:
    """The run of MLflow that belongs to an output folder."""

    def __init__(self, folder: str, task: str):
        """Prepares the tracking of a folder; `start` begins it."""
        self._folder, self._task = folder, task
        self._id, self._status = "", "RUNNING"
        self._file, self._offset = -1, 0
        self._has_parameters = self._has_history = False
        # The values that MLflow has, by metric and step.
        self._sent: dict[str, dict[int, float]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def start(self) -> None:
        """Starts sending the metrics to a run of MLflow; raises a `UserError` if it cannot."""
        import mlflow

        try:
            self._client = mlflow.MlflowClient()
            self._id = self._continued() or self._created()
            self._client.set_tag(self._id, "albert.output_dir", os.path.abspath(self._folder))
        except UserError:
            raise
        except Exception as e:
            raise UserError(
                f"--track=mlflow: {mlflow.get_tracking_uri()} cannot be used: {first_line(e)}; "
                "set MLFLOW_TRACKING_URI, or remove --track"
            ) from e
        LOG.info("Tracking as run %s of MLflow in %s", self._id, mlflow.get_tracking_uri())
        self._thread.start()

    def _continued(self) -> str | None:
        """Continues the run that the folder names; returns its id, or None without such a run."""
        path = os.path.join(self._folder, MLFLOW)
        if not os.path.exists(path):
            return None
        record = read_json(path, "the record of the tracked run")
        known = record.get("run_id") if isinstance(record, dict) else None
        if not isinstance(known, str):
            raise UserError(f"{path} has no run_id; remove it to start a new run in MLflow")
        self._client.update_run(known, status="RUNNING")
        self._has_history = True
        return known

    def _created(self) -> str:
        name = os.environ.get(_EXPERIMENT) or "albert"
        experiment = self._client.get_experiment_by_name(name)
        number = experiment.experiment_id if experiment else self._client.create_experiment(name)
        tags = {"albert.task": self._task, "albert.version": VERSION}
        run_name = os.path.basename(os.path.abspath(self._folder))
        created = self._client.create_run(number, tags=tags, run_name=run_name).info.run_id
        write_json(os.path.join(self._folder, MLFLOW), {"run_id": created})
        return created

    def _follow(self) -> None:
        while not self._stop.wait(_SECONDS_BETWEEN):
            self._try(self._send)
        self._try(lambda: self._send(is_last=True))
        self._try(lambda: self._client.set_terminated(self._id, self._status))

    def _try(self, send: Callable[[], None]) -> None:
        """Calls a function; an error is a warning, because it must not end the training."""
        try:
            send()
        except Exception as e:
            # Some of it may have arrived.
            self._sent, self._has_history = {}, True
            LOG.warning(
                "--track=mlflow: %s; the run continues, and sends this later", first_line(e)
            )

    def _send(self, is_last: bool = False) -> None:
        """Sends the parameters and metrics that MLflow does not have; at last the best scores."""
        from mlflow.entities import Metric, Param

        if not self._has_parameters and (settings := recorded_settings(self._folder)):
            texts = {n: v if isinstance(v, str) else json.dumps(v) for n, v in settings.items()}
            self._client.log_batch(self._id, params=[Param(*item) for item in texts.items()])
            self._has_parameters = True
        offset, lines = self._new_lines()
        entries = [("eval/" * (line["kind"] == metrics.SCORES), line) for line in lines]
        if is_last and (best := recorded_scores(self._folder)):
            entries.append(("best/", {**best, "step": best["global_step"], "time": time.time()}))
        new = []
        for prefix, line in entries:
            for name in [n for n, v in line.items() if isinstance(v, float) and n != "time"]:
                # Labels in the names of scores may have characters that MLflow refuses.
                key = re.sub(r"[^/\w.\- ]", "_", prefix + name)
                step, value, sent = line["step"], line[name], self._sent_of(key)
                # The speed of a repeated step differs, so only scores are compared by their values.
                if step not in sent or (prefix and sent[step] != value):
                    new.append(Metric(key, value, int(line["time"] * 1000), step))
        self._client.log_batch(self._id, metrics=new)
        for metric in new:
            self._sent[metric.key][metric.step] = metric.value
        self._offset = offset

    def _sent_of(self, name: str) -> dict[int, float]:
        """Returns the values of a metric that MLflow has, by step; asks for them once."""
        if name not in self._sent:
            history = self._client.get_metric_history(self._id, name) if self._has_history else ()
            self._sent[name] = {metric.step: metric.value for metric in history}
        return self._sent[name]

    def _new_lines(self) -> tuple[int, list[metrics.Line]]:
        """Returns the lines since the last offset and their end; all lines of a replaced file."""
        path = os.path.join(self._folder, metrics.METRICS)
        if not os.path.exists(path):
            return 0, []
        with open(path, "rb") as file:
            number = os.fstat(file.fileno()).st_ino
            if number != self._file:
                self._file, self._offset = number, 0
            file.seek(self._offset)
            content = file.read()
        return self._offset + content.rfind(b"\n") + 1, metrics.parse(content)

    def end(self, status: str) -> None:
        """Lets the thread send the rest and end the run; waits for seconds only."""
        # It does not run if its start failed.
        if self._thread.ident is None:
            return
        self._status = status
        self._stop.set()
        self._thread.join(_SECONDS_AT_END)
        if self._thread.is_alive():
            LOG.warning(
                "--track=mlflow: the server has not taken everything within %g s; the same command "
                "sends the rest",
                _SECONDS_AT_END,
            )
