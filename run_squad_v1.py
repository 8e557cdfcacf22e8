"""Runs `albert.run_squad_v1`, the program of the reference."""

import runpy
import sys

if __name__ == "__main__":
    runpy.run_module("albert.run_squad_v1", run_name="__main__", alter_sys=True)
else:
    from albert import run_squad_v1

    sys.modules[__name__] = run_squad_v1
