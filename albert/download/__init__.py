"""Commands that fetch pretrained models and datasets; they import no TensorFlow."""

import importlib.util
import sys

_needed = ("filelock", "requests", "tqdm")
if _missing := " ".join(name for name in _needed if importlib.util.find_spec(name) is None):
    _advice = "use the one that `make install` makes, .venv/bin/python, or install them with pip"
    sys.exit(f"{sys.argv[0]}: error: {sys.executable} has not all packages: {_missing}; {_advice}")
