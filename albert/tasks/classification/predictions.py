"""Test predictions as files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def write_predictions(
    results_file: str,
    submission_file: str,
    ids: Sequence[str],
    outputs: Sequence[dict[str, np.ndarray]],
    labels: Sequence[str | None],
    limits: tuple[float, float] | None = None,
) -> None:
    """Writes what the model gives for the examples of a test set.

    Args:
      results_file: the probability of every label, a line an example; in regression the number.
      submission_file: id and predicted label, below a header, as GLUE takes them.
      ids: of the examples of the test set.
      outputs: "probabilities" [C] and "predictions" of every example.
      labels: in the order of their ids; only None for regression.
      limits: what lies outside of them in regression is moved to them in the submission.
    """
    with open(results_file, "w", encoding="utf-8") as file:
        file.writelines("\t".join(map(str, output["probabilities"])) + "\n" for output in outputs)
    with open(submission_file, "w", encoding="utf-8") as file:
        file.write("index\tprediction\n")
        for name, output in zip(ids, outputs, strict=True):
            file.write(f"{name}\t{_answer(output['predictions'], labels, limits)}\n")


def _answer(
    prediction: np.ndarray, labels: Sequence[str | None], limits: tuple[float, float] | None
) -> str:
    if list(labels) != [None]:
        return labels[int(prediction)]
    low, high = limits or (prediction, prediction)
    return str(min(max(prediction, low), high))
