"""The log of a program: TensorFlow's logger, which needs no TensorFlow to be written to."""

import logging

LOG = logging.getLogger("tensorflow")
