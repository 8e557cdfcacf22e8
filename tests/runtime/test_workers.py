"""Work in processes: order, errors, and what a dead worker leaves."""

from __future__ import annotations

import os
import time

import pytest

from runtime.errors import UserError
from runtime.workers import ordered_map


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("tasks", [0, 1, 20])
def test_results_are_in_order(workers, tasks):
    factor = 7

    def slow_first(task):
        time.sleep(0.02 if task == 0 else 0)
        return task * factor

    assert list(ordered_map(slow_first, range(tasks), workers)) == [7 * t for t in range(tasks)]


def test_the_work_is_done_in_other_processes():
    where = set(ordered_map(lambda _: (time.sleep(0.02), os.getpid())[1], range(8), 2))
    assert len(where) == 2
    assert os.getpid() not in where
    assert set(ordered_map(lambda _: os.getpid(), range(8), 1)) == {os.getpid()}


@pytest.mark.parametrize("workers", [1, 2])
def test_errors_arrive(workers):
    def fail_at_three(task):
        if task == 3:
            raise UserError("three is no good")
        return task

    results = ordered_map(fail_at_three, range(6), workers)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(UserError, match="three is no good"):
        next(results)


def test_a_dead_worker_is_an_error_in_one_line():
    def die(task):
        os.kill(os.getpid(), 9)

    with pytest.raises(UserError, match="worker process died.*--preprocess_workers=1"):
        list(ordered_map(die, range(4), 2))


def test_results_that_wait_are_bounded(tmp_path):
    """Of many tasks only a few are ahead of what was taken."""

    def touch(task):
        (tmp_path / str(task)).touch()

    results = ordered_map(touch, range(500), 2)
    next(results)
    time.sleep(0.3)
    assert len(list(tmp_path.iterdir())) < 20
    results.close()
