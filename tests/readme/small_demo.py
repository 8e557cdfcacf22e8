"""Runs the demo in seconds: the same commands and files, with a model that has learned nothing."""

import sys

from albert.cli.demo import parse
from albert.demo import demo

if __name__ == "__main__":
    demo.TRAIN_STEPS, demo.LEAST_F1 = {"1.1": 2}, 0.0
    demo.main(parse(["albert demo", *sys.argv[1:]]))
