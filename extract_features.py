"""Runs `albert.cli.extract_features`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("albert.cli.extract_features", run_name="__main__", alter_sys=True)
