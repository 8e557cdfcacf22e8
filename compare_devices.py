"""Runs `albert.cli.compare_devices`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("albert.cli.compare_devices", run_name="__main__", alter_sys=True)
