"""Runs a program and disturbs one of its workers when training reaches a step.

python -m tests.programs.at_step FAULT STEP RANK PROGRAM.py [FLAG...]

So a run breaks where a test wants it to, however busy the machine is.
"""

import functools
import pathlib
import runpy
import signal
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from albert import cli  # noqa: E402, F401  First: it silences TensorFlow's import.

import tensorflow.compat.v1 as tf  # noqa: E402  # isort: skip

from albert.distributed import collectives, launcher  # noqa: E402

# The kernel sends SIGKILL when memory runs out; a stopped worker hangs.
NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSTOP)
FAULTS = {number.name: functools.partial(signal.raise_signal, number) for number in NUMBERS}
FAULTS["kill"] = functools.partial(signal.raise_signal, signal.SIGKILL)
FAULTS["stall"] = functools.partial(time.sleep, 1e6)


class AtStep(tf.train.SessionRunHook):
    """Calls `fault` once the global step is `step`; before the first step if it is 0."""

    def __init__(self, fault, step: int):
        self._fault, self._step = fault, step

    def begin(self) -> None:
        self._global_step = tf.train.get_global_step()

    def after_create_session(self, session, coord) -> None:
        if self._step == 0:
            self._fault()

    def after_run(self, run_context, run_values) -> None:
        if run_context.session.run(self._global_step) == self._step:
            self._fault()


def main() -> None:
    fault, step, rank, *command = sys.argv[1:]
    if int(rank) == launcher.started.rank:
        hooks = collectives.starting_hooks
        collectives.starting_hooks = lambda: [*hooks(), AtStep(FAULTS[fault], int(step))]
    sys.argv = command
    runpy.run_path(command[0], run_name="__main__")


if __name__ == "__main__":
    main()
