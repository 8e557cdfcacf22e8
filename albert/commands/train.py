"""Trains and scores a task."""

from __future__ import annotations

from albert.cli.training import TaskProgram
from albert.training.run import run


def main(program: TaskProgram) -> None:
    """Runs the task under its flags."""
    run(program.load())
