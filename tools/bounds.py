"""Upper bounds of requirements, and the tests that show their reasons.

python -m tools.bounds    installs what is beyond each bound and runs these tests with it; if they
                          pass, the bound can be raised
"""

import os
import subprocess
import sys
import tempfile

from tests.helpers.forking import ROOT
from tests.helpers.locks import requirements

# The tests that may fail beyond the bound of a package.
TESTS = {
    "filelock": "tests/test_bounds.py tests/core/test_locks.py",
    "tensorflow-cpu": "tests/core/test_estimators.py tests/test_modeling.py",
    # There is no later one.
    "tensorflow-estimator": "tests/core/test_estimators.py",
}


def excluded() -> dict[str, str]:
    """Returns what each requirement with an upper bound excludes, such as `filelock>=4.2`."""
    beyond = {"<": ">=", "==": ">"}
    return {
        requirement.name: f"{requirement.name}{beyond[bound.operator]}{bound.version}"
        for requirement in requirements(ROOT / "requirements.txt")
        for bound in requirement.specifier
        if bound.operator in beyond
    }


def tried(requirement: str, tests: str) -> str:
    """Installs the newest version beyond a bound, runs the tests, and returns what they say."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
        if subprocess.run([*pip, requirement], capture_output=True).returncode:
            return "no version is beyond the bound"
        command = [sys.executable, "-m", "pytest", "-q", "--quick", *tests.split()]
        environment = {**os.environ, "PYTHONPATH": folder}
        fails = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True).returncode
    return "the reason holds" if fails else "raise the bound: the tests pass beyond it"


if __name__ == "__main__":
    for name, requirement in excluded().items():
        print(f"{requirement}: {tried(requirement, TESTS[name])}", flush=True)
