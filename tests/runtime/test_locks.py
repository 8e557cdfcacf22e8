"""A lock between processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from runtime import locks
from runtime.errors import UserError
from tests.conftest import ROOT

HOLD = """
import sys, time
from runtime import locks
with locks.one_at_a_time(sys.argv[1]):
    print("holding", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def holder(path, seconds: float) -> subprocess.Popen:
    """A process that has the lock when this returns."""
    command = [sys.executable, "-c", HOLD, str(path), str(seconds)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "holding\n"
    return process


def test_waits_for_the_holder(tmp_path):
    process = holder(tmp_path / "file", 1.5)
    started = time.monotonic()
    with locks.one_at_a_time(str(tmp_path / "file")) as waited:
        assert waited
        assert time.monotonic() - started > 0.5
        assert process.wait(timeout=60) == 0
    assert os.listdir(tmp_path) == []


def test_the_lock_of_a_killed_holder_is_taken(tmp_path, monkeypatch):
    """After the time for which it was not refreshed; all that contend agree on that time."""
    process = holder(tmp_path / "file", 60)
    process.kill()
    process.wait()
    started = time.monotonic()
    with locks.one_at_a_time(str(tmp_path / "file")):
        assert time.monotonic() - started < locks._STALE_SECONDS + 10
    assert os.listdir(tmp_path) == []


def test_an_error_in_the_block_releases_it(tmp_path):
    with pytest.raises(KeyError), locks.one_at_a_time(str(tmp_path / "file")):
        raise KeyError
    with locks.one_at_a_time(str(tmp_path / "file")) as waited:
        assert not waited


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(UserError, match="cannot be written"),
        locks.one_at_a_time(str(tmp_path / "file" / "x")),
    ):
        pass
