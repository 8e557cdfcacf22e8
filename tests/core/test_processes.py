"""The number of cores, on systems that bind processes to cores and on others."""

import os
import sys

from albert.core.processes import default_processes, usable_cores


def test_cores_are_counted_on_every_system(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1, 5, 7}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(sys, "platform", "linux")
    assert (usable_cores(), default_processes()) == (3, 3)
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert (usable_cores(), default_processes()) == (8, 1)
