"""Where the program meets hardware, cluster and disk."""

import os

# TensorFlow's core prints a page about the processor when it is imported; warnings still show.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
