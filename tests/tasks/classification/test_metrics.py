"""Scores and the best threshold, compared with those of NumPy, SciPy and scikit-learn."""

import math
import warnings

import numpy as np
import pytest

from albert.tasks.classification import metrics

sklearn = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
stats = pytest.importorskip("scipy.stats")

LABELS = np.array([1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0])
PREDICTED = np.array([0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1])


def random_numbers(seed):
    """Returns numbers of which some are equal."""
    rng = np.random.RandomState(seed)
    x = rng.randint(0, 12, 40) / 4
    return x, (x + rng.standard_normal(40)).round(1).astype(np.float32)


@pytest.mark.parametrize("seed", range(20))
def test_scores_equal_those_of_scikit_learn_and_scipy(seed):
    rng = np.random.RandomState(seed)
    labels = rng.randint(0, 2, 50)
    predicted = np.where(rng.rand(50) < 0.3, 1 - labels, labels)
    theirs = {metrics.accuracy: sklearn.accuracy_score, metrics.f1: sklearn.f1_score}
    for ours, function in {**theirs, metrics.pearson: sklearn.matthews_corrcoef}.items():
        assert ours(labels, predicted) == pytest.approx(function(labels, predicted), abs=1e-12)
    x, y = random_numbers(seed)
    assert metrics.pearson(x, y) == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-12)
    assert metrics.spearman(x, y) == pytest.approx(stats.spearmanr(x, y)[0], abs=1e-12)


def test_constant_predictions_score_0_and_losses_stay_finite():
    """Not NaN, so that checkpoints can be compared."""
    for constant in (np.zeros(12, int), np.ones(12, int)):
        for metric in (metrics.pearson, metrics.spearman):
            assert metric(LABELS, constant) == metric(constant, LABELS) == 0
    assert metrics.pearson(np.arange(7.0), np.full(7, 0.1, np.float32)) == 0
    nothing = np.zeros(12, int)
    assert metrics.f1(LABELS, nothing) == metrics.f1(nothing, nothing) == 0
    logits = np.array([[1.0, 2.0, 0.5], [0.0, 0.0, 0.0]], np.float32)
    first = -math.log(math.exp(2) / (math.e + math.exp(2) + math.exp(0.5)))
    mean = pytest.approx((first + math.log(3)) / 2)
    assert metrics.cross_entropy(np.array([1, 2]), logits) == mean
    # The loss of a sure mistake is finite where the exponential overflows even in float64.
    assert metrics.cross_entropy(np.array([0]), np.array([[-900.0, 900.0]], np.float32)) == 1800
    value = metrics.mean_squared_error(np.array([1.0, 5.0]), np.array([2.0, 2.0], np.float32))
    assert value == pytest.approx((1 + 9) / 2)


def test_scores_are_json_numbers_in_the_given_order():
    logits = np.stack([1.0 - PREDICTED, PREDICTED], axis=1).astype(np.float32) * 3
    names = ["matthew_corr", "eval_accuracy", "f1"]
    scores = metrics.compute_metrics(names, LABELS, logits, PREDICTED)
    assert list(scores) == ["matthew_corr", "eval_accuracy", "f1", "eval_loss"]
    assert scores["f1"] == metrics.f1(LABELS, PREDICTED)
    assert scores["matthew_corr"] == metrics.pearson(LABELS, PREDICTED)
    assert scores["eval_loss"] == metrics.cross_entropy(LABELS, logits)
    x, y = random_numbers(0)
    numbers = metrics.compute_metrics(["pearson", "spearman", "MSE"], x, y, y)
    assert numbers["pearson"] == metrics.pearson(x, y)
    assert numbers["eval_loss"] == numbers["MSE"] == metrics.mean_squared_error(x, y)
    assert {type(value) for value in (*scores.values(), *numbers.values())} == {float}


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
    scores = metrics.compute_metrics(["micro_f1", "macro_f1"], truth, logits, predictions)
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

    threshold = metrics.best_threshold(truth, shares)
    values = np.unique(shares)
    assert f1(threshold) == max(map(f1, [*values, *(values + 1e-4), 0.0]))
    assert np.abs(shares - threshold).min() > 1e-4, "rounding does not change predictions"
    (output,) = metrics.with_predictions([{"probabilities": shares[0]}], threshold)
    above = np.array([*"abcde"])[shares[0] >= threshold]
    assert metrics.chosen("abcde", output["predictions"]) == above.tolist()


def test_the_threshold_is_usual_without_labels_and_predicts_all_if_all_are_true():
    shares, nothing = np.array([[0.9, 0.2], [0.4, 0.4]], np.float32), np.zeros([2, 2], int)
    assert metrics.best_threshold(nothing, shares) == 0.5
    assert metrics.best_threshold(np.ones([2, 2], int), shares) == pytest.approx(0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = metrics.compute_metrics(["macro_f1"], nothing, shares, nothing)
    assert scores["macro_f1"] == 0
