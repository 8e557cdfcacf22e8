"""Downloads a published model or a dataset."""

from __future__ import annotations

import logging

from albert.download import download_dataset, download_glue_data, download_pretrained_model

_PROGRAMS = {"model": download_pretrained_model, "glue": download_glue_data}


def main(asked: list[str]) -> None:
    """Downloads the model or dataset that the first word names, with the flags after it.

    Raises:
      UserError: a flag is wrong, or a download fails.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    kind, *flags = asked
    if kind in _PROGRAMS:
        _PROGRAMS[kind].main(flags, f"albert download {kind}")
    else:
        download_dataset.main(asked, "albert download")
