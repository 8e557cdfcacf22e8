"""ALBERT and BERT for TensorFlow: fine-tuning, pretraining, answering and serving.

    import albert

    model = albert.load("out/squad")
    result = albert.train("squad", "out/squad", model="albert_base_v2", train_file="train.json")
    scores = albert.evaluate(result, predict_file="dev.json").scores

The package also has the reference's modules under their names, as in `from albert import modeling`.
`import albert` is fast, because it does not import TensorFlow.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from albert.api import Result, evaluate, train
    from albert.core.errors import UserError
    from albert.inference.loading import load
    from albert.sklearn import TextClassifier

__all__ = ["Result", "TextClassifier", "UserError", "evaluate", "load", "train"]
# Those that are not in `albert.api`. Answering does not need the code of training.
_MODULES = {"load": "albert.inference.loading", "TextClassifier": "albert.sklearn"}


def __getattr__(name: str) -> Any:
    """Imports the public functions when one of them is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    level = "TF_CPP_MIN_LOG_LEVEL"
    # TensorFlow prints many lines about the processor when it is imported. Warnings still show.
    quietens = "tensorflow" not in sys.modules and level not in os.environ
    if quietens:
        os.environ[level] = "1"
    try:
        return getattr(importlib.import_module(_MODULES.get(name, "albert.api")), name)
    finally:
        if quietens:
            del os.environ[level]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
