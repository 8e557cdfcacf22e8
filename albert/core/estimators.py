"""TensorFlow's estimators, whichever TensorFlow this is: the one place that imports them.

TensorFlow brings them up to 2.15, as `tf.estimator`. Later ones run the same classes, those of the
package `tensorflow-estimator`, whose own imports are too wide for them: the canned models, Keras
and the gradual removal of names. Here that package is entered past its front door, and the few
modules that are needed are imported by themselves.

The names are found when they are first used, so that what is missing is an error like any other.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from typing import Any

import tensorflow.compat.v1 as tf

from albert.core.errors import UserError

_PACKAGE = "tensorflow_estimator"
_FOLDER = f"{_PACKAGE}.python.estimator"
_MODULES = {
    "ClassificationOutput": "export.export_lib",
    "Estimator": "estimator",
    "EstimatorSpec": "model_fn",
    "ModeKeys": "mode_keys",
    "PredictOutput": "export.export_lib",
    "RegressionOutput": "export.export_lib",
    "RunConfig": "run_config",
    "ServingInputReceiver": "export.export_lib",
}


class GraphParts(tf.train.SessionRunHook):
    """Carries parts of a `model_fn`'s graph, as one of its specification's training hooks.

    An `EstimatorSpec` has no other field for them. In a session the hook does nothing.

    Attributes:
      parts: tensors, operations and variables of the graph, nested.
    """

    def __init__(self, parts: Any):
        self.parts = parts


def graph_parts(spec: Any) -> Any:
    """Returns the parts that the `GraphParts` of an `EstimatorSpec` has."""
    return next(hook.parts for hook in spec.training_hooks if isinstance(hook, GraphParts))


def __getattr__(name: str) -> Any:
    """Returns one of the classes above, as an attribute of this module.

    Raises:
      UserError: this environment has no estimators.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if not hasattr(tf, "estimator") and _PACKAGE not in sys.modules:
        _open_package()
    found = getattr(importlib.import_module(f"{_FOLDER}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def _open_package() -> None:
    """Lets modules of the package be imported one by one, and by a TensorFlow after 2.15."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None:
        raise UserError(
            f"TensorFlow {tf.__version__} has no estimators of its own; install the package that "
            "has: pip install tensorflow-estimator==2.15.0"
        )
    # The package without its `__init__`, which imports all that it has ever had.
    sys.modules[_PACKAGE] = importlib.util.module_from_spec(spec)
    # It registers each class in an interface of TensorFlow's that is gone.
    exporting = types.ModuleType(f"{_FOLDER}.estimator_export")
    vars(exporting)["estimator_export"] = lambda *names, **more_names: lambda exported: exported
    sys.modules[exporting.__name__] = exporting
    # Asked only by distribution strategies, which this project does not use, and gone as well.
    strategies = types.ModuleType("tensorflow.python.distribute.estimator_training")
    sys.modules[strategies.__name__] = strategies
    vars(importlib.import_module("tensorflow.python.distribute"))["estimator_training"] = strategies
