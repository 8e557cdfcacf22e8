"""Runs the demo in seconds: the same commands and files, with a model that has learned nothing.

python -m tests.readme.small_demo [FOLDER]
"""

import sys

from albert.demo import demo

if __name__ == "__main__":
    demo.RUN_FLAGS["train_steps"], demo.LEAST_F1 = 2, 0.0
    demo.main(*sys.argv[1:] or ["demo_output"])
