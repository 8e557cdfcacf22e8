"""The spread of scores over runs."""

import numpy as np
import pytest

from albert.training.spread import spread_of_runs


def test_the_spread_is_as_by_hand():
    runs = [{"f1": 80.0, "exact": 1.0}, {"f1": 84.0}, {"f1": 82.0}, {"f1": 90.0}]
    spread = spread_of_runs(runs)
    assert spread == {"f1": (83.0, 80.0, 90.0, pytest.approx(np.sqrt(56 / 3)))}
