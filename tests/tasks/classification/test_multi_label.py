"""Several labels per example: F1 as scikit-learn computes it, and the best threshold."""

import warnings

import numpy as np
import pytest

from albert.tasks.classification.metrics import (
    best_threshold,
    chosen,
    compute_metrics,
    with_predictions,
)

sklearn = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")


def examples(seed: int, rows: int = 40, labels: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Returns labels, and logits that are often right and sometimes equal."""
    rng = np.random.default_rng(seed)
    truth = (rng.random([rows, labels]) < rng.random(labels)).astype(np.int64)
    return truth, (truth - 0.5 + rng.normal(0, 1, truth.shape)).round(1).astype(np.float32)


def probabilities_of(logits: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logits))


@pytest.mark.parametrize("seed", range(20))
def test_f1_equals_that_of_scikit_learn(seed):
    truth, logits = examples(seed)
    # Labels that are never true, or never predicted.
    truth[:, 0] *= seed % 2
    logits[:, 1] -= 9 * (seed % 3 == 0)
    predictions = (logits > 0).astype(np.int32)
    scores = compute_metrics(["micro_f1", "macro_f1"], truth, logits, predictions)
    for name in ("micro", "macro"):
        expected = sklearn.f1_score(truth, predictions, average=name, zero_division=0)
        assert scores[f"{name}_f1"] == pytest.approx(expected, abs=1e-12)
    shares = probabilities_of(logits.astype(np.float64)).ravel()
    expected = sklearn.log_loss(truth.ravel(), shares, labels=[0, 1])
    assert scores["eval_loss"] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_no_threshold_is_better(seed):
    truth, logits = examples(seed)
    shares = probabilities_of(logits)

    def f1(threshold: float) -> float:
        return sklearn.f1_score(truth, shares >= threshold, average="micro")

    threshold = best_threshold(truth, shares)
    values = np.unique(shares)
    assert f1(threshold) == max(map(f1, [*values, *(values + 1e-4), 0.0]))
    assert np.abs(shares - threshold).min() > 1e-4, "rounding does not change predictions"
    (output,) = with_predictions([{"probabilities": shares[0]}], threshold)
    assert chosen("abcde", output["predictions"]) == [
        label for label, share in zip("abcde", shares[0], strict=True) if share >= threshold
    ]


def test_the_threshold_is_usual_without_labels_and_predicts_all_if_all_are_true():
    shares = np.array([[0.9, 0.2], [0.4, 0.4]], np.float32)
    assert best_threshold(np.zeros([2, 2], int), shares) == 0.5
    assert best_threshold(np.ones([2, 2], int), shares) == pytest.approx(0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = compute_metrics(["macro_f1"], np.zeros([2, 2], int), shares, np.zeros([2, 2], int))
    assert scores["macro_f1"] == 0
