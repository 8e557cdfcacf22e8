"""Upper bounds of requirements have a reason that a test shows; `python -m tools.bounds`."""

import os
import time

import filelock

from tests.helpers.forking import ROOT
from tools.bounds import TESTS, excluded


def test_each_upper_bound_has_a_test():
    assert excluded().keys() == TESTS.keys()
    assert all((ROOT / path).is_file() for paths in TESTS.values() for path in paths.split())


def test_an_empty_lock_file_of_a_killed_process_expires(tmp_path):
    """Versions of filelock after 4.2.0 wait for ever."""
    path = tmp_path / "made.lock"
    path.touch()
    os.utime(path, (time.time() - 100,) * 2)
    lock = filelock.SoftFileLease(path, lease_duration=0.5, heartbeat_interval=0.1)
    with lock.acquire(timeout=10):
        pass
