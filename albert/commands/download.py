"""Fetches a published model or a dataset."""

from __future__ import annotations

import sys

from albert.download import download_dataset, download_glue_data, download_pretrained_model
from albert.download.command import run_command


def main(asked: list[str]) -> None:
    """Fetches what the first word says, and exits."""
    kind, *flags = asked
    programs = {"model": download_pretrained_model, "glue": download_glue_data}
    words = [kind, *flags] if kind not in programs else flags
    sys.argv[1:] = words
    sys.exit(run_command(programs.get(kind, download_dataset).main))
