"""Runs `albert download` under its name in the reference, from any folder."""

import pathlib
import sys

# Run as a script, Python looks for modules in this folder only.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from albert.cli.main import run_program

run_program("download")
