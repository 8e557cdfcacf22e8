"""TensorFlow's estimators, in every supported version; the only module that imports them.

TensorFlow contains them up to version 2.15, as `tf.estimator`. Later versions can run the same
classes from the package `tensorflow-estimator`, but importing all of it fails there, because it
also imports canned models, Keras and removed interfaces. So this module skips the package's
`__init__`, and imports a few modules when their names are first used. A missing package is then
reported like other errors.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import types
from typing import Any

import tensorflow.compat.v1 as tf

from albert.core.errors import require

_PACKAGE = "tensorflow_estimator"
_FOLDER = f"{_PACKAGE}.python.estimator"
_MODULES = {
    "Estimator": "estimator",
    "EstimatorSpec": "model_fn",
    "ModeKeys": "mode_keys",
    "PredictOutput": "export.export_lib",
    "RunConfig": "run_config",
}


class GraphParts(tf.train.SessionRunHook):
    """Carries `parts` of a `model_fn`'s graph, as a training hook of its `EstimatorSpec`.

    An `EstimatorSpec` has no other field for this nested structure of tensors, operations and
    variables. In a session, the hook does nothing.
    """

    def __init__(self, parts: Any):
        self.parts = parts


def graph_parts(spec: Any) -> Any:
    """Returns the parts in the `GraphParts` of an `EstimatorSpec`."""
    return next(hook.parts for hook in spec.training_hooks if isinstance(hook, GraphParts))


def __getattr__(name: str) -> Any:
    """Returns one of the classes in `_MODULES`; raises a `UserError` if estimators are missing."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if hasattr(tf, "estimator"):
        if os.environ.get("TF_USE_LEGACY_KERAS") in ("1", "true", "True"):
            why = "TF_USE_LEGACY_KERAS is set, so TensorFlow needs another Keras; unset it, or: "
            require("tf_keras", "tf-keras", why=why)
    elif _PACKAGE not in sys.modules:
        _open_package()
    member = getattr(importlib.import_module(f"{_FOLDER}.{_MODULES[name]}"), name)
    globals()[name] = member
    return member


def _open_package() -> None:
    """Makes the package's modules importable one by one with TensorFlow after 2.15."""
    why = f"TensorFlow {tf.__version__} has no estimators: "
    spec = require(_PACKAGE, "tensorflow-estimator==2.15.0", why=why)
    # The package without its `__init__`, which imports everything.
    sys.modules[_PACKAGE] = importlib.util.module_from_spec(spec)
    # The package registers its classes in an interface that TensorFlow no longer has.
    exporting = types.ModuleType(f"{_FOLDER}.estimator_export")
    vars(exporting)["estimator_export"] = lambda *names, **more_names: lambda exported: exported
    sys.modules[exporting.__name__] = exporting
    # TensorFlow no longer has this module either. Only distribution strategies use it, and this
    # project does not use them.
    strategies = types.ModuleType("tensorflow.python.distribute.estimator_training")
    sys.modules[strategies.__name__] = strategies
    vars(importlib.import_module("tensorflow.python.distribute"))["estimator_training"] = strategies
