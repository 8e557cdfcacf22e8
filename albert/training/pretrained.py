"""Fetching the pretrained model of a job before it begins."""

from __future__ import annotations

import os
import subprocess

from albert.core.errors import UserError
from albert.core.locations import command
from albert.settings.run_settings import RunSettings


def fetch_missing(settings: RunSettings) -> None:
    """Fetches the model whose folder --init_checkpoint names, with --download, if it is not there.

    The folder's name is that of a published model. Of the workers of a host one fetches it, and
    the others wait.

    Raises:
      UserError: there is no such model, or it cannot be fetched.
    """
    path = settings.init_checkpoint
    if not (settings.download and path):
        return
    # A checkpoint lies in the folder of its model, or the folder is given.
    folder = os.path.dirname(path) if ".ckpt" in os.path.basename(path) else path
    if os.path.isdir(folder):
        return
    parent, name = os.path.split(os.path.abspath(folder))
    fetching = command("download", "model", name, f"--output_dir={parent}")
    if subprocess.run(fetching).returncode:
        raise UserError(
            f"--download: {name} of --init_checkpoint {path} could not be fetched, as said above"
        )
