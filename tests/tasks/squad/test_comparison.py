"""The bootstrap of a difference; tests/test_evaluate.py tests the scores of files."""

import numpy as np
import pytest

from albert.tasks.squad.comparison import Predictions, bootstrap_interval, compare


def test_the_interval_is_that_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(3)
    differences = rng.choice([0.0, 0, 0, 100, -100, 50, -40, 66.7], size=400)
    interval = bootstrap_interval(differences, seed=1)
    theirs = stats.bootstrap(
        (differences,), np.mean, n_resamples=20_000, method="percentile", random_state=rng
    ).confidence_interval
    # 10,000 draws of a mean with a standard error of about 2.8 give quantiles within about 0.07.
    assert interval == pytest.approx((theirs.low, theirs.high), abs=0.25)
    assert interval[1] - interval[0] > 5
    assert bootstrap_interval(differences, 1) == bootstrap_interval(differences, 1)
    assert bootstrap_interval(differences, 1) != bootstrap_interval(differences, 2)
    assert Predictions._field_defaults == {"odds": None, "threshold": 1.0}


def test_the_bootstrap_is_over_paired_questions():
    """Systems that differ on one question of many have a narrower interval than their scores."""
    first = {str(i): float(i % 2) for i in range(1000)}
    second = {**first, "0": 1.0}
    difference = compare(first, second, seed=1)
    assert difference.mean == pytest.approx(0.1)
    assert (difference.better, difference.worse) == (["0"], [])
    assert 0 == difference.low < difference.high < 0.5
    assert compare(first, first, seed=1)[:3] == (0, 0, 0)
    # Questions of only one system do not count.
    assert compare({"a": 1.0, "b": 0.0}, {"b": 1.0, "c": 0.0}, seed=1)[:4] == (100,) * 3 + (["b"],)
