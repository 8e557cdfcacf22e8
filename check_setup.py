"""Runs `albert.cli.check_setup`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("albert.cli.check_setup", run_name="__main__", alter_sys=True)
