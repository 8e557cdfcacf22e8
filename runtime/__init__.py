"""Where the program meets hardware, cluster and disk."""

import os
import sys

from runtime import signals

# TensorFlow's core prints a page about the processor when it is imported; warnings still show.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

# A job of ours is to end well also while it imports TensorFlow, which takes seconds; what else
# imports this package deals with signals itself.
_folder, _name = os.path.split(os.path.realpath(sys.argv[0]))
if _folder == os.path.dirname(os.path.dirname(__file__)) and _name.startswith("run_"):
    signals.install()
