"""Runs `albert.cli.convert_checkpoint`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("albert.cli.convert_checkpoint", run_name="__main__", alter_sys=True)
