"""What the requirements name is on the package index."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys

import pytest

from tests.helpers.forking import ROOT

# pip itself looks for each of the locked ones, with its hash, when they are installed.
FILES = sorted([*ROOT.glob("requirements*.txt"), *ROOT.glob("requirements/[!l]*.txt")])
# The bridge's own; for the others this Python is asked for.
PYTHONS = {"requirements-gaudi.txt": "3.10", "habana-horovod.txt": "3.10"}


def pins(text: str) -> list[tuple[str, str]]:
    """Names and versions of the lines that name one version."""
    return re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==([\w.+]+)", text, re.MULTILINE)


@functools.cache
def versions(name: str, python: str | None) -> list[str]:
    """The versions of a package that the index has for a Python."""
    command = [sys.executable, "-m", "pip", "index", "versions", name, "--pre"]
    command += [f"--python-version={python}", "--only-binary=:all:"] if python else []
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    listed = re.search("Available versions: (.*)", result.stdout)
    return listed.group(1).split(", ") if listed else []


def test_pins_are_found():
    text = "# a\n-r other.txt\nabc==1.2\nd-e[f,g]==3.0rc1 ; x\nh>=1\n"
    assert pins(text) == [("abc", "1.2"), ("d-e", "3.0rc1")]
    assert sum(len(pins(path.read_text())) for path in FILES) > 10


@pytest.mark.skipif(os.environ.get("CI") != "true", reason="asks the package index: CI does")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_is_pinned_is_on_the_index(path):
    python = PYTHONS.get(path.name)
    missing = [p for p in pins(path.read_text()) if p[1] not in versions(p[0], python)]
    assert not missing
