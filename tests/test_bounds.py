"""Upper bounds of requirements have a reason that a test shows; `python -m tools.bounds`."""

import os
import re
import time

import filelock

from tests.helpers.forking import ROOT
from tests.helpers.locks import requirements
from tools.bounds import BOUNDS


def test_each_upper_bound_has_a_comment_and_a_test():
    bounded = {}
    for file in ("requirements.txt", "requirements/common.txt"):
        lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
        for before, line in zip(lines, lines[1:], strict=False):
            if bound := re.fullmatch(r"([\w-]+)(?:.*,<|==)([\d.]+)", line):
                bounded[bound[1]] = bound[2]
                assert before.startswith("#"), f"{file}: {line} has no reason"
    assert bounded.keys() == BOUNDS.keys()
    for name, bound in BOUNDS.items():
        (requirement,) = {r for r in requirements(ROOT / "requirements.txt") if r.name == name}
        assert bound.first not in requirement.specifier
        for path in re.findall(r"tests/\S+", bound.tests):
            assert (ROOT / path).is_file()


def test_an_empty_lock_file_of_a_killed_process_expires(tmp_path):
    """Versions of filelock after 4.2.0 wait for ever."""
    path = tmp_path / "made.lock"
    path.touch()
    os.utime(path, (time.time() - 100,) * 2)
    lock = filelock.SoftFileLease(path, lease_duration=0.5, heartbeat_interval=0.1)
    with lock.acquire(timeout=10):
        pass
