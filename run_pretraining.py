"""Runs `albert.run_pretraining`, the program of the reference."""

import runpy
import sys

if __name__ == "__main__":
    runpy.run_module("albert.run_pretraining", run_name="__main__", alter_sys=True)
else:
    from albert import run_pretraining

    sys.modules[__name__] = run_pretraining
