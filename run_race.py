"""Runs `albert.run_race`, the program of the reference."""

import runpy
import sys

if __name__ == "__main__":
    runpy.run_module("albert.run_race", run_name="__main__", alter_sys=True)
else:
    from albert import run_race

    sys.modules[__name__] = run_race
