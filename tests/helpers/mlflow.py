"""Runs of MLflow in a folder, which is its fastest store."""

import pathlib
import unittest.mock

# Without the first variable, MLflow prefers a database, which takes seconds to create.
FILE_STORE = {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}


def tracked_runs(store: pathlib.Path) -> list[tuple]:
    """Returns each run of a store, and its metrics: lists of step and value, by name."""
    with unittest.mock.patch.dict("os.environ", FILE_STORE):
        from mlflow import MlflowClient

        client = MlflowClient(str(store))
        experiments = [experiment.experiment_id for experiment in client.search_experiments()]
        found = []
        for run in client.search_runs(experiments):
            histories = {
                name: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)]
                for name in run.data.metrics
            }
            found.append((run, histories))
        return found
