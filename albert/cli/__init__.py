"""Programs: their command lines, and how they start and end."""

import os
import sys

from albert.core import signals

# TensorFlow's core prints a page about the processor when it is imported; warnings still show.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")


closed_streams: set[str] = set()


def _open_closed_streams() -> None:
    """Gives a process that was started without a standard stream an empty one.

    Otherwise the next file to be opened gets its number, and what is meant for the stream.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            closed_streams.add(name)
            os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))


_open_closed_streams()

# A job of ours is to end well also while it imports TensorFlow, which takes seconds; what else
# imports this package deals with signals itself.
_folder, _name = os.path.split(os.path.realpath(sys.argv[0]))
if _folder == os.path.dirname(os.path.dirname(__file__)) and _name.startswith("run_"):
    signals.install(resumes=True)
