"""Checkpoints of a few variables, and what runs write: variables, curves, and runs of MLflow."""

import collections
import pathlib
import unittest.mock
from collections.abc import Mapping

import numpy as np
import tensorflow.compat.v1 as tf


def write_checkpoint(prefix: object, arrays: Mapping[str, object], meta: bool = False) -> str:
    """Saves arrays under their names; returns the prefix."""
    with tf.Graph().as_default(), tf.Session() as session:
        variables = [tf.get_variable(n, initializer=tf.constant(v)) for n, v in arrays.items()]
        session.run(tf.global_variables_initializer())
        saver = tf.train.Saver(variables)
        return saver.save(session, str(prefix), write_meta_graph=meta, write_state=False)


def weights(folder: pathlib.Path, name: str = "model.ckpt-12") -> dict[str, np.ndarray]:
    """Returns all variables of a checkpoint, including optimizer slots."""
    reader = tf.train.load_checkpoint(str(folder / name))
    return {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}


def points(folder: pathlib.Path) -> dict[str, dict[int, float]]:
    """Returns the curves in a folder: the values of every tag by step."""
    found = collections.defaultdict(dict)
    for file in folder.glob("events*"):
        for event in tf.train.summary_iterator(str(file)):
            for value in event.summary.value:
                found[value.tag][event.step] = value.simple_value
    return found


def losses(folder: pathlib.Path) -> np.ndarray:
    """Returns the loss of every step, from the curves."""
    found = points(folder)["loss"]
    return np.array([found[step] for step in sorted(found)])


# Without the first variable, MLflow prefers a database, which takes seconds to create.
FILE_STORE = {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_DISABLE_TELEMETRY": "true"}


def tracked_runs(store: pathlib.Path) -> list[tuple]:
    """Returns each run of a store, a folder, and its metrics: lists of step and value, by name."""
    with unittest.mock.patch.dict("os.environ", FILE_STORE):
        from mlflow import MlflowClient

        client = MlflowClient(str(store))
        experiments = [experiment.experiment_id for experiment in client.search_experiments()]
        found = []
        for run in client.search_runs(experiments):
            histories = {
                name: sorted(
                    (m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)
                )
                for name in run.data.metrics
            }
            found.append((run, histories))
        return found
