"""Runs `albert.run_classifier`, the program of the reference."""

import runpy
import sys

if __name__ == "__main__":
    runpy.run_module("albert.run_classifier", run_name="__main__", alter_sys=True)
else:
    from albert import run_classifier

    sys.modules[__name__] = run_classifier
