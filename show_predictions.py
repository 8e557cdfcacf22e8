"""Runs `albert.cli.show_predictions`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("albert.cli.show_predictions", run_name="__main__", alter_sys=True)
