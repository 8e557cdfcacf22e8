"""Work in processes: order, errors, and dead workers."""

import errno
import logging
import multiprocessing.synchronize
import os
import pathlib
import signal
import subprocess
import sys
import time
from unittest import mock

import pytest

from albert.core.errors import UserError
from albert.records.process_pool import ordered_map
from tests.helpers.forking import ROOT
from tests.helpers.running import run_text

# Prints the ids of two worker processes, which are then idle or at work.
ENTRY_POINT = """
import os, time
from albert.records.process_pool import ordered_map
def work(task):
    time.sleep(1000 if task > 3 else 0.1)
    return os.getpid()
results = ordered_map(work, range(6 if {busy} else 4), 2)
print(*{{next(results) for _ in range(4)}}, flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("workers", [1, 3])
def test_results_are_in_order(workers):
    factor = 7

    def slow_first(task):
        time.sleep(0.02 if task == 0 else 0)
        return task * factor

    for tasks in (0, 1, 20):
        results = list(ordered_map(slow_first, range(tasks), workers))
        assert results == [7 * task for task in range(tasks)]


def test_workers_do_not_finalize_the_parents_objects(tmp_path):
    """An open TensorFlow session that is collected in a forked process ends that process."""
    text = """
import gc, os
from albert.records.process_pool import ordered_map
class Session:
    def __del__(self):
        print("ended by", "the parent" if os.getpid() == parent else "a worker", flush=True)
parent, session = os.getpid(), Session()
session.itself = session
del session
list(ordered_map(lambda task: gc.collect(), range(2), 2))
gc.collect()
"""
    assert run_text(tmp_path, text).stdout == "ended by the parent\n"


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_and_the_death_of_a_worker_reach_the_caller(workers):
    def fail_at_three(task):
        if task == 3:
            raise UserError("three is no good")
        return task

    results = ordered_map(fail_at_three, range(6), workers)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(UserError, match="three is no good"):
        next(results)
    with pytest.raises(UserError, match="worker process died.*--preprocess_workers=1"):
        list(ordered_map(lambda task: os.kill(os.getpid(), 9), range(4), 2))


def test_without_shared_memory_one_process_works(monkeypatch, log):
    refuse = mock.Mock(side_effect=OSError(errno.EROFS, "Read-only file system"))
    monkeypatch.setattr(multiprocessing.synchronize.SemLock, "__init__", refuse)
    assert list(ordered_map(lambda task: (task, os.getpid()), range(4), 2)) == [
        (task, os.getpid()) for task in range(4)
    ]
    (message,) = log(logging.WARNING)
    assert message.startswith("/dev/shm cannot be written ([Errno 30] Read-only file system): one ")


def test_waiting_results_are_bounded(tmp_path):
    results = ordered_map(lambda task: (tmp_path / str(task)).touch(), range(500), 2)
    for taken, _ in zip(range(1, 100), results, strict=False):
        assert len(list(tmp_path.iterdir())) < taken + 20
    results.close()


@pytest.mark.parametrize(("number", "busy"), [(signal.SIGTERM, True), (signal.SIGKILL, False)])
@pytest.mark.slow
def test_workers_end_with_the_process_that_started_them(number, busy):
    """However it ends; otherwise they would keep their memory, and its output open, forever."""
    command = [sys.executable, "-c", ENTRY_POINT.format(busy=busy)]
    parent = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    folders = [pathlib.Path("/proc") / pid for pid in parent.stdout.readline().split()]
    assert len(folders) == 2 and all(folder.exists() for folder in folders)
    parent.send_signal(number)
    parent.communicate(timeout=10)  # which waits until every process has closed the output
    assert parent.returncode == -number
    deadline = time.monotonic() + 10
    while any(folder.exists() for folder in folders):
        assert time.monotonic() < deadline, "workers are left behind"
        time.sleep(0.02)
