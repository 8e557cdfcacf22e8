"""Runs `albert.cli.ask`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("albert.cli.ask", run_name="__main__", alter_sys=True)
