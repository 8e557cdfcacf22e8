"""Examples with any number of labels: which labels are predicted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from albert.prediction.session import Output

# The probability from which a label is predicted unless another one was chosen.
USUAL_THRESHOLD = 0.5


def best_threshold(labels: np.ndarray, probabilities: np.ndarray) -> float:
    """Returns the probability from which predicting labels gives the best micro F1.

    It is halfway between two probabilities, so that rounding does not change predictions. Of equal
    scores, the one with the fewest predicted labels counts. The arguments are int [N, C], each 0
    or 1, and float [N, C].
    """
    if not labels.any():
        return USUAL_THRESHOLD
    order = np.argsort(-probabilities, axis=None, kind="stable")
    ordered = probabilities.ravel()[order].astype(np.float64)
    lower = np.append(ordered[1:], 0.0)
    hits, counts = np.cumsum(labels.ravel()[order]), np.arange(1, labels.size + 1)
    # Labels with equal probabilities are predicted together.
    f1 = np.where(ordered > lower, 2 * hits / (counts + labels.sum()), -1.0)
    best = int(np.argmax(f1))
    return float((ordered[best] + lower[best]) / 2)


def with_predictions(outputs: Sequence[Output], threshold: float) -> list[Output]:
    """Returns a model's outputs with the predictions for another threshold."""
    return [
        {**output, "predictions": (output["probabilities"] >= threshold).astype(np.int32)}
        for output in outputs
    ]


def chosen(labels: Sequence[str], predictions: np.ndarray) -> list[str]:
    """Returns the labels with a 1 in `predictions`, int [C]."""
    return [label for label, is_chosen in zip(labels, predictions, strict=True) if is_chosen]
