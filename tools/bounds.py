"""Upper bounds of requirements, and the tests that show their reasons.

python -m tools.bounds    installs what is beyond each bound and runs these tests with it; if they
                          pass, the bound can be raised
"""

import os
import subprocess
import sys
import tempfile
from typing import NamedTuple

from tests.helpers.forking import ROOT


class Bound(NamedTuple):
    """The first version that a requirement excludes, and the tests that may fail with it."""

    first: str
    tests: str


BOUNDS = {
    "filelock": Bound("4.2", "tests/test_bounds.py tests/core/test_locks.py"),
    "tensorflow-cpu": Bound("2.22", "tests/core/test_estimators.py tests/test_modeling.py"),
    # There is no later one.
    "tensorflow-estimator": Bound("2.15.1", "tests/core/test_estimators.py"),
}


def beyond(name: str, bound: Bound) -> str:
    """Installs the newest version beyond a bound, runs the tests, and returns what they say."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
        if subprocess.run([*pip, f"{name}>={bound.first}"], capture_output=True).returncode:
            return "no version is beyond the bound"
        command = [sys.executable, "-m", "pytest", "-q", "--quick", *bound.tests.split()]
        environment = {**os.environ, "PYTHONPATH": folder}
        fails = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True).returncode
    return "the reason holds" if fails else "raise the bound: the tests pass beyond it"


if __name__ == "__main__":
    for name, bound in BOUNDS.items():
        print(f"{name}<{bound.first}: {beyond(name, bound)}", flush=True)
