"""Estimators with any version of TensorFlow."""

import importlib.util
import sys

import pytest
import tensorflow.compat.v1 as tf

from albert.core import estimators
from albert.core.errors import UserError


@pytest.mark.each_python
def test_names_are_tensorflows_own():
    """So objects of a script and of this project work together."""
    for name in estimators._MODULES:
        actual = getattr(estimators, name)
        assert actual.__name__.removeprefix("Estimator") == name.removeprefix("Estimator")
        assert getattr(estimators, name) is actual
        # TensorFlow after 2.15 has none.
        if owner := getattr(tf, "estimator", None):
            assert actual is getattr(owner if hasattr(owner, name) else owner.export, name)
    with pytest.raises(AttributeError, match="no attribute 'DNNClassifier'"):
        estimators.DNNClassifier  # noqa: B018


def test_a_missing_package_names_the_pip_command(monkeypatch):
    """Keras is missing only if a variable asks for another one."""
    with monkeypatch.context() as patch:
        patch.setenv("TF_USE_LEGACY_KERAS", "1")
        patch.setitem(sys.modules, "tf_keras", None)
        with pytest.raises(UserError, match="LEGACY_KERAS is set.*: run `pip install tf-keras"):
            estimators.__getattr__("Estimator")
    monkeypatch.delattr(tf, "estimator", raising=False)
    monkeypatch.delitem(vars(estimators), "RunConfig", raising=False)
    monkeypatch.delitem(sys.modules, "tensorflow_estimator", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install tensorflow-estimator==2.15.0"):
        estimators.RunConfig  # noqa: B018
