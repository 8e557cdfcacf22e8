"""Runs `albert.create_pretraining_data`, the program of the reference."""

import runpy
import sys

if __name__ == "__main__":
    runpy.run_module("albert.create_pretraining_data", run_name="__main__", alter_sys=True)
else:
    from albert import create_pretraining_data

    sys.modules[__name__] = create_pretraining_data
