"""Processes in which TensorFlow runs: one that is forked from another lacks its threads."""

from __future__ import annotations

import os

from albert.core.errors import UserError

_running_in: set[int] = set()


def check_not_forked() -> None:
    """Remembers this process, in which TensorFlow is about to run, unless there is one already.

    Raises a `UserError` if this process was forked from that one: TensorFlow and OpenVINO would
    wait forever for their threads.
    """
    _running_in.update(() if _running_in else (os.getpid(),))
    if os.getpid() not in _running_in:
        raise UserError(
            "this process was forked from one in which TensorFlow has run, whose threads it lacks: "
            "start processes with multiprocessing.get_context('spawn')"
        )
