"""Benchmarks: `make bench` lists them."""

import os

# Libraries print many lines when they are imported. TensorFlow's warnings still show.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
