"""Runs `albert.cli.serve`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("albert.cli.serve", run_name="__main__", alter_sys=True)
