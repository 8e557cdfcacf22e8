"""Writes a model with products in int8, which answers faster on CPUs, and measures what it loses.

  albert quantize MODEL TO --data=dev.json

MODEL is the --output_dir of a run, an export, or a folder of transformers with a head, also by its
name on the Hugging Face hub. TO is a new folder, for --engine=openvino. --data is what the task of
the model is scored on: the file of --predict_file, or for classify and race the folder of
--data_dir. The model is scored in float32 and in int8. If it loses more than --max_loss, the groups
of products that cost most stay in floating point; if that is not enough, nothing is written. Needs
the packages nncf, onnx and openvino.
"""

from __future__ import annotations

import os
import tempfile

from albert.core.errors import FlagError, UserError, optional, require
from albert.core.files import remove_temporary_files
from albert.core.locks import exclusive
from albert.core.log import LOG
from albert.core.text import aligned
from albert.settings.fields import Settings, setting


class QuantizeSettings(Settings):
    """The data to calibrate and score the model with, and the loss to accept."""

    data: str = setting("", "Data of the model's task, with labels. Required.", basic=True)
    max_loss: float = setting(
        0.5, "Points of the score that the model may lose: percent of accuracy or of F1.", lower=0.0
    )


SETTINGS, TAKES_ARGUMENTS = QuantizeSettings, True


def main(request: tuple[QuantizeSettings, list[str]]) -> None:
    """Quantizes the model; raises a `UserError` if it loses too much."""
    settings, paths = request
    if len(paths) != 2 or not all(paths):
        raise FlagError("pass two paths: albert quantize MODEL TO --data=FILE")
    settings.require("data")
    path, target = paths[0], os.path.abspath(paths[1])
    packages = "nncf", "onnx==1.18.0", "openvino"
    require("nncf", *packages, why="albert quantize: ")
    with optional(*packages, why="albert quantize: "):
        from albert.quantization.search import Trial
    with exclusive(target), _workplace(target) as work:
        trial = Trial(path, work, settings.data, settings.max_loss)
        rows = trial.search()
        _, exact, speed = rows[0]
        cells = [(r.products, r.score, exact - r.score, r.speed / speed) for r in rows]
        lines = [(products, *(f"{number:.2f}" for number in rest)) for products, *rest in cells]
        titles = ("products in", trial.score_name, "loss", "speed")
        print("\n".join(aligned([titles, *lines], right=True)))
        if not trial.is_enough(rows[0], rows[-1]):
            raise UserError(
                f"int8 loses more than {settings.max_loss:g} points, so {target} is not written; "
                "raise --max_loss, or use bfloat16"
            )
        os.rename(trial.folder, target)
    LOG.info("%s: a model for --engine=openvino", target)


def _workplace(target: str) -> tempfile.TemporaryDirectory:
    """Makes a temporary folder next to a new one; removes those of programs that were killed."""
    if os.path.lexists(target):
        raise FlagError(f"{target} exists; pass a new folder")
    remove_temporary_files(target)
    folder, name = os.path.split(target)
    return tempfile.TemporaryDirectory(prefix=f".{name}.", dir=folder)
