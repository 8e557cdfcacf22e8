"""Commands that download pretrained models and datasets, without importing TensorFlow."""

import importlib.util
import sys

_needed = ("absl", "filelock", "requests", "tqdm")
if _missing := " ".join(name for name in _needed if importlib.util.find_spec(name) is None):
    _advice = "install them with pip, or use .venv/bin/python, which `make install` sets up"
    sys.exit(f"{sys.argv[0]}: error: {sys.executable} lacks packages: {_missing}; {_advice}")
