"""Runs `albert.download.download_glue_data`, from any folder."""

import pathlib
import runpy
import sys

# Run as a script, Python looks for modules in this folder only.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
runpy.run_module("albert.download.download_glue_data", run_name="__main__", alter_sys=True)
