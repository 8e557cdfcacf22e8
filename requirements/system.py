"""Completes an environment on top of an image that brings TensorFlow, such as a vendor's container.

    python3 -m venv --system-site-packages .venv
    .venv/bin/python requirements/system.py             # with the next line: make install SYSTEM=1
    .venv/bin/python -m pip install --no-deps --editable .
    .venv/bin/python requirements/system.py horovod cpu|gpu|gaudi   # make horovod SYSTEM=1

Installs the missing packages of common.txt, or Horovod if the image has none. Installed packages
that fit stay as they are.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

# The environment's own pip brings this library.
from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.specifiers import SpecifierSet
from pip._vendor.packaging.utils import canonicalize_name

FOLDER = Path(__file__).resolve().parent
_PYTHONS = SpecifierSet(">=3.10,<3.14")
_TENSORFLOWS = SpecifierSet(">=2.15,<2.22")
_INSTEAD = "choose another image, or run `make install` without SYSTEM=1"


def main() -> None:
    installed = {
        canonicalize_name(found.metadata["Name"]): found.version
        # The first of several on Python's path counts.
        for found in reversed([*metadata.distributions()])
    }
    check(installed)
    if not sys.argv[1:]:
        complete(FOLDER / "common.txt", installed)
        return
    _, _, device = sys.argv
    for name in ("horovod", "habana-horovod"):
        if name in installed:
            print(f"using the installed {name} {installed[name]}")
            return
    complete(FOLDER / "horovod.txt", installed)
    sys.exit(subprocess.run([FOLDER / "horovod.sh", sys.executable, device]).returncode)


def check(installed: dict[str, str]) -> None:
    """Ends the program unless Python and the image's TensorFlow fit."""
    python = ".".join(map(str, sys.version_info[:3]))
    if python not in _PYTHONS:
        fail(f"the image's Python is {python}, and this project needs 3.10 to 3.13; {_INSTEAD}")
    # Vendors' packages have names of their own, such as tensorflow-rocm.
    name = re.compile(r"tensorflow(-(cpu|gpu|rocm|intel))?")
    versions = {n: version for n, version in installed.items() if name.fullmatch(n)}
    if not versions:
        fail(f"Python {python} of this image has no TensorFlow; {_INSTEAD}")
    for name, version in versions.items():
        if not _TENSORFLOWS.contains(version, prereleases=True):
            fail(f"the image has {name} {version}, and this project needs 2.15 to 2.21; {_INSTEAD}")
        print(f"using {name} {version} of the image")


def requirements(file: Path) -> Iterator[Requirement]:
    """Yields the requirements of a file, without its hashes, for this Python."""
    for line in file.read_text(encoding="utf-8").splitlines():
        if re.match(r"\w", line):
            requirement = Requirement(line.split(" #")[0].rstrip("\\ "))
            if not requirement.marker or requirement.marker.evaluate():
                yield requirement


def fits(requirement: Requirement, installed: dict[str, str]) -> bool:
    if requirement.name == "openmpi" and shutil.which("mpicc"):
        # Another MPI than the image's could not talk to its launcher.
        return True
    version = installed.get(canonicalize_name(requirement.name))
    return version is not None and requirement.specifier.contains(version, prereleases=True)


def complete(file: Path, installed: dict[str, str]) -> None:
    """Installs the requirements that do not fit; all other packages stay."""
    needed = [r for r in requirements(file) if not fits(r, installed)]
    kept = dict(installed)
    for requirement in needed:
        if version := kept.pop(canonicalize_name(requirement.name), None):
            print(
                f"{requirement.name} {version} of the image does not fit; installing {requirement} "
                f"into {sys.prefix}"
            )
    if not needed:
        return
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        for name, version in kept.items():
            print(f"{name}=={version}", file=constraints)
        constraints.flush()
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.run([*pip, "-c", constraints.name, *map(str, needed)]).returncode:
            names = ", ".join(requirement.name for requirement in needed)
            fail(f"pip cannot add {names} to the image's packages, see above; {_INSTEAD}")


def fail(message: str) -> None:
    sys.exit(f"system.py: error: {message}")


if __name__ == "__main__":
    main()
