"""Estimators of any TensorFlow."""

from __future__ import annotations

import importlib.util
import sys

import pytest
import tensorflow.compat.v1 as tf

from runtime import estimators
from runtime.errors import UserError

NAMES = sorted(estimators._MODULES)


@pytest.mark.each_python
@pytest.mark.parametrize("name", NAMES)
def test_names(name):
    found = getattr(estimators, name)
    assert found.__name__.removeprefix("Estimator") in (name, name.removeprefix("Estimator"))
    assert getattr(estimators, name) is found


@pytest.mark.skipif(not hasattr(tf, "estimator"), reason="TensorFlow after 2.15 has none")
@pytest.mark.parametrize("name", NAMES)
def test_they_are_tensorflows_own(name):
    """So that a script's and this project's fit each other."""
    owner = tf.estimator if hasattr(tf.estimator, name) else tf.estimator.export
    assert getattr(estimators, name) is getattr(owner, name)


def test_other_names():
    with pytest.raises(AttributeError, match="no attribute 'DNNClassifier'"):
        estimators.DNNClassifier  # noqa: B018


def test_without_the_package(monkeypatch):
    monkeypatch.delattr(tf, "estimator", raising=False)
    monkeypatch.delitem(vars(estimators), "RunConfig", raising=False)
    monkeypatch.delitem(sys.modules, "tensorflow_estimator", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install tensorflow-estimator==2.15.0"):
        estimators.RunConfig  # noqa: B018
