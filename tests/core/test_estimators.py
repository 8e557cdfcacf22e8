"""Estimators of any TensorFlow."""

import importlib.util
import sys

import pytest
import tensorflow.compat.v1 as tf

from albert.core import estimators
from albert.core.errors import UserError


@pytest.mark.each_python
def test_names():
    """They are TensorFlow's own, so that a script's and this project's fit each other."""
    for name in estimators._MODULES:
        found = getattr(estimators, name)
        assert found.__name__.removeprefix("Estimator") == name.removeprefix("Estimator")
        assert getattr(estimators, name) is found
        # TensorFlow after 2.15 has none.
        if owner := getattr(tf, "estimator", None):
            assert found is getattr(owner if hasattr(owner, name) else owner.export, name)
    with pytest.raises(AttributeError, match="no attribute 'DNNClassifier'"):
        estimators.DNNClassifier  # noqa: B018


def test_without_the_package(monkeypatch):
    monkeypatch.delattr(tf, "estimator", raising=False)
    monkeypatch.delitem(vars(estimators), "RunConfig", raising=False)
    monkeypatch.delitem(sys.modules, "tensorflow_estimator", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install tensorflow-estimator==2.15.0"):
        estimators.RunConfig  # noqa: B018
