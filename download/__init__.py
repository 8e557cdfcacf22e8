"""Commands that fetch pretrained models and datasets; they import no TensorFlow."""

import importlib.util
import os
import sys

_missing = [p for p in ("filelock", "requests", "tqdm") if importlib.util.find_spec(p) is None]
if _missing:
    sys.exit(
        f"{os.path.basename(sys.argv[0])}: error: {sys.executable} has no {', '.join(_missing)}; "
        "take the Python that `make install` makes (.venv/bin/python), or "
        f"`{sys.executable} -m pip install {' '.join(_missing)}`"
    )
