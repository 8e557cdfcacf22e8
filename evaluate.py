"""Runs `albert.cli.evaluate`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("albert.cli.evaluate", run_name="__main__", alter_sys=True)
