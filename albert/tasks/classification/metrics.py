"""The metrics of GLUE (https://arxiv.org/abs/1804.07461), computed from NumPy arrays.

For examples with any number of labels, also which ones are predicted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from albert.prediction.session import Output

# The probability from which a label is predicted unless another one was chosen.
USUAL_THRESHOLD = 0.5


def accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Returns the fraction of equal entries in two integer arrays [N]."""
    return float(np.mean(labels == predictions))


def f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Returns the harmonic mean of precision and recall for class 1; 0 if there are no hits.

    The arguments are int [N], each 0 or 1.
    """
    hits = np.sum((labels == 1) & (predictions == 1))
    return float(2 * hits / max(np.sum(labels == 1) + np.sum(predictions == 1), 1))


def micro_f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Returns F1 over all labels of all examples; the arguments are int [N, C], each 0 or 1."""
    return f1(labels.ravel(), predictions.ravel())


def macro_f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Returns the mean of the F1 of every label; the arguments are those of `micro_f1`."""
    return float(np.mean([f1(*columns) for columns in zip(labels.T, predictions.T, strict=True)]))


def pearson(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Returns the Pearson correlation of two arrays [N]; 0 if one of them is constant."""
    x, y = (values.astype(np.float64) for values in (labels, predictions))
    if not (np.ptp(x) and np.ptp(y)):
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    return float(np.sum(x * y) / np.sqrt(np.sum(x * x) * np.sum(y * y)))


def spearman(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Returns the Spearman correlation, which is the Pearson correlation of ranks."""
    return pearson(_ranks(labels), _ranks(predictions))


def _ranks(values: np.ndarray) -> np.ndarray:
    """Returns ranks from 1, float64 [N]; equal values share their mean rank."""
    _, groups, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[groups]


def mean_squared_error(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Returns the mean of the squared differences of two arrays [N]."""
    return float(np.mean(np.square(labels.astype(np.float64) - predictions)))


def cross_entropy(labels: np.ndarray, logits: np.ndarray) -> float:
    """Returns the mean of -log softmax of the logits, float [N, C], at the labels, int [N]."""
    logits = logits.astype(np.float64)
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_sums = np.log(np.exp(shifted).sum(axis=1))
    return float(np.mean(log_sums - shifted[np.arange(len(labels)), labels]))


def sigmoid_cross_entropy(labels: np.ndarray, logits: np.ndarray) -> float:
    """Returns the mean of -log sigmoid of the logits, negated where the label is 0; both [N, C]."""
    signed = np.where(labels, logits, -logits).astype(np.float64)
    return float(np.mean(np.logaddexp(0.0, -signed)))


# Names are those of the reference. Metrics that the reference lacks have their usual names.
_METRICS = {
    "eval_accuracy": accuracy,
    "f1": f1,
    "micro_f1": micro_f1,
    "macro_f1": macro_f1,
    # The Matthews correlation of two classes, 0 and 1, is their Pearson correlation.
    "matthew_corr": pearson,
    "pearson": pearson,
    "spearman": spearman,
    "MSE": mean_squared_error,
}


def compute_metrics(
    names: Sequence[str], labels: np.ndarray, logits: np.ndarray, predictions: np.ndarray
) -> dict[str, float]:
    """Returns scores by name, and `eval_loss`, the mean loss.

    Args:
      labels: int [N]; for regression, float [N]; for several labels, int [N, C], each 0 or 1.
      logits: float [N, C]; for regression, [N].
      predictions: as the labels.
    """
    if logits.ndim == 1:
        loss = mean_squared_error(labels, logits)
    elif labels.ndim == 1:
        loss = cross_entropy(labels, logits)
    else:
        loss = sigmoid_cross_entropy(labels, logits)
    return {**{name: _METRICS[name](labels, predictions) for name in names}, "eval_loss": loss}


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
