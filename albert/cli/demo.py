"""Trains, predicts and scores on a made-up sample, with a separate command for each step.

  albert demo
  albert demo --squad=2.0

Writes articles about invented things and a SentencePiece model of their words, and trains a small
ALBERT from scratch with `albert squad`. With --squad=2.0, some questions have no answer, and the
demo uses `albert squad 2.0`. The same command reuses the files of an earlier run.
"""

from __future__ import annotations

from albert.settings.fields import Settings, setting

NEEDS_TENSORFLOW, RESUMES = False, True


class DemoSettings(Settings):
    """The sample and its folder."""

    output_dir: str = setting("demo_output", "Folder for the data, the model and the runs.")
    squad: str = setting(
        "1.1", "Version of SQuAD whose format the sample has.", choices=("1.1", "2.0")
    )


SETTINGS = DemoSettings


def main(settings: DemoSettings) -> None:
    """Runs the demo; raises a `UserError` if a step fails or the scores are too low."""
    from albert.demo import demo

    demo.main(settings.output_dir, settings.squad)
