"""Downloads a published model or a dataset."""

from __future__ import annotations

from collections.abc import Sequence

from albert.download import download_dataset, download_glue_data, download_pretrained_model

_PROGRAMS = {"model": download_pretrained_model, "glue": download_glue_data}


def main(words: Sequence[str]) -> None:
    """Downloads the model or dataset that the first word names, with the flags after it."""
    kind, *flags = words
    if kind in _PROGRAMS:
        _PROGRAMS[kind].main(flags, f"albert download {kind}")
    else:
        download_dataset.main(words, "albert download")
