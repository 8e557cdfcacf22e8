"""Trains and scores a task."""

from __future__ import annotations

from albert.cli.training import Job
from albert.training.run import run


def main(job: Job) -> None:
    """Runs a task under its settings."""
    run(job.program.load(), job.settings)
