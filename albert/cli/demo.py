"""Trains, predicts and scores on a made-up sample, with a separate command for each step.

  albert demo

Writes articles about invented things and a SentencePiece model of their words, and trains a small
ALBERT from scratch with `albert squad`. The same command reuses the files of an earlier run.
"""

from __future__ import annotations

from albert.settings.fields import Settings, setting

NEEDS_TENSORFLOW, RESUMES = False, True


class DemoSettings(Settings):
    """The sample and its folder."""

    output_dir: str = setting("demo_output", "Folder for the data, the model and the runs.")


SETTINGS = DemoSettings


def main(settings: DemoSettings) -> None:
    """Runs the demo; raises a `UserError` if a step fails or the scores are too low."""
    from albert.demo import demo

    demo.main(settings.output_dir)
