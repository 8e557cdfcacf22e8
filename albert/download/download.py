"""Downloads a published model or a dataset."""

from __future__ import annotations

from collections.abc import Sequence

from albert.core.errors import FlagError
from albert.core.text import restore_docstring
from albert.download import download_dataset, download_glue_data, download_pretrained_model
from albert.download.named_model import local_folder

_PROGRAMS = {"model": download_pretrained_model, "glue": download_glue_data}


def main(words: Sequence[str]) -> None:
    """Downloads the model or dataset that the first word names, with the flags after it.

    If that is the name of a model, prints its folder, which `--model=NAME` then finds.
    """
    kind, *flags = words
    for module in (*_PROGRAMS.values(), download_dataset):
        restore_docstring(module)
    if kind in _PROGRAMS:
        _PROGRAMS[kind].main(flags, f"albert download {kind}")
    elif kind in ("squad", "race"):
        download_dataset.main(words, "albert download")
    else:
        if flags:
            raise FlagError(f"{flags[0]!r} is too much: a model's name has no flags after it")
        print(local_folder(kind))
