"""What `make install` installs and leaves alone, and whether it is there; nothing is installed."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from packaging.requirements import Requirement

from tests.helpers.forking import ROOT


def requirements(path):
    """The requirements of a file and of those it includes."""
    for line in path.read_text(encoding="utf-8").splitlines():
        line = line.split(" #")[0].split("\\")[0].strip()
        if line.startswith("-r "):
            yield from requirements(path.parent / line[3:])
        elif line and line[0].isalnum():
            yield Requirement(line)


def pinned(name, python):
    """The versions in a lock file, by package, for a Python such as "3.10"."""
    full = {"python_full_version": f"{python}.13", "sys_platform": "linux"}
    return {
        r.name: str(r.specifier).removeprefix("==")
        for r in requirements(ROOT / "requirements" / f"lock-{name}.txt")
        if not r.marker or r.marker.evaluate({"python_version": python, **full})
    }


def make(*arguments, env=os.environ):
    # Without what a `make test DEVICE=...` around this says.
    outer = ("MAKEFLAGS", "DEVICE", "BASE_PYTHON")
    env = {name: value for name, value in env.items() if name not in outer}
    return subprocess.run(["make", *arguments], cwd=ROOT, env=env, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("file", "lock"),
    [
        ("dev/nvidia0", "requirements/lock-gpu.txt"),
        ("dev/hl0", "requirements/lock-gaudi.txt"),
        # As in a container that has no card.
        ("sys/module/habanalabs/version", "requirements/lock-cpu.txt"),
        ("dev/null", "requirements/lock-cpu.txt"),
    ],
)
def test_the_device_is_found(file, lock, tmp_path):
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).touch()
    # Without an `nvidia-smi` of this machine.
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    plan = make("-n", "install", f"SYSROOT={tmp_path}", f"VENV={tmp_path}", env=environment)
    assert f"pip install --quiet --disable-pip-version-check -r {lock}\n" in plan.stdout
    assert ("horovod.sh" in plan.stdout) == ("gaudi" in lock)


def test_without_a_python_that_fits(tmp_path):
    result = make("install", "BASE_PYTHON=", f"VENV={tmp_path}", "DEVICE=gaudi")
    assert result.returncode != 0
    assert "there is no Python 3.10 with venv; name one with BASE_PYTHON=..." in result.stdout


def test_locks_are_exact_and_name_no_registry():
    for path in (ROOT / "requirements").glob("lock-*.txt"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"https?:|--(extra-)?index-url|--find-links", text), path
        for block in re.split(r"\n(?=\w)", text):
            assert re.match(r"[\w.-]+==\S+.*\\\n +--hash=sha256:", block), block


def test_the_default_tensorflow():
    versions = {"3.10": "2.15.1", "3.11": "2.15.1", "3.12": "2.21.0", "3.13": "2.21.0"}
    for python, version in versions.items():
        cpu, gpu = pinned("cpu", python), pinned("gpu", python)
        assert cpu["tensorflow-cpu"] == gpu["tensorflow"] == version
        assert cpu["numpy"] == gpu["numpy"] == pinned("dev", python)["numpy"]


def test_an_environment_for_gaudi_stays_as_it_is():
    """`pip install -r requirements.txt` finds all there, and changes nothing that is."""
    there = pinned("gaudi", "3.10")
    assert there["tensorflow-cpu"] == "2.15.0" and there["habana-tensorflow"] == "1.14.0.493"
    for requirement in requirements(ROOT / "requirements.txt"):
        assert requirement.specifier.contains(there[requirement.name]), requirement
