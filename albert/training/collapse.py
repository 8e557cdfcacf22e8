"""Signs that a model has not learned its task, for a warning at the end of a run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow.compat.v1 as tf

from albert.records import DEV
from albert.report import PAGE
from albert.report.predictions import read_samples
from albert.training import metrics
from albert.training.prepared import PreparedRun

# With fewer examples, steps or log lines, chance could explain the sign.
_LEAST_EXAMPLES, _LEAST_STEPS, _LEAST_LINES = 20, 100, 6


def warn_if_not_learned(run: PreparedRun) -> None:
    """Logs a warning if a training has failed; only for rank 0 and a run that trains."""
    folder, signs = run.settings.output_dir, list[str]()
    if DEV in run.data and PAGE in run.task.outputs:
        signs += _label_of_all(folder)
    signs += _loss_that_did_not_fall(folder)
    if signs:
        tf.logging.warning(
            "The model has not learned its task: %s; train again with a lower --learning_rate, "
            "more warm-up or --optimizer=adamw_corrected, in another --output_dir",
            " and ".join(signs),
        )


def _label_of_all(folder: str) -> Iterator[str]:
    """Yields the sign that all predictions are one label."""
    answers, truths = set[str](), list[str]()
    for sample in read_samples(folder):
        answer, truth = sample["answer"], sample.get("truth")
        if not (isinstance(answer, str) and isinstance(truth, str)):
            return
        answers.add(answer)
        truths.append(truth)
        if len(answers) > 1:
            return
    if len(truths) >= _LEAST_EXAMPLES and len({*truths}) > 1:
        yield f"it labels all {len(truths)} examples of the development set {answers.pop()}"


def _loss_that_did_not_fall(folder: str) -> Iterator[str]:
    """Yields the sign that the loss of log lines was as high at the end as at the beginning."""
    lines = [line for line in metrics.read(folder) if line["kind"] == metrics.TRAINING]
    losses = [line["loss"] for line in lines if line.get("loss") is not None]
    if len(losses) < _LEAST_LINES or lines[-1]["step"] < _LEAST_STEPS:
        return
    third = len(losses) // 3
    first, last = np.mean(losses[:third]), np.mean(losses[-third:])
    if last >= first:
        yield f"its loss did not fall, from {first:.4f} to {last:.4f} on average"
