r"""Shows predictions beside what is true: some on the terminal, all in a page for a browser.

  albert show FOLDER [--only=wrong] [--start_sample=0] [--num_samples=3]
  albert show --predictions=predictions.json --data=dev-v1.1.json

FOLDER is an --output_dir; its run has written the page, predictions.html. With --data the page is
made anew, of a SQuAD file and of the files in FOLDER, or of those that flags name: of whatever
system, a JSON object of question id to answer.
"""

from __future__ import annotations

from albert.cli import command_line
from albert.cli.main import EntryPoint
from albert.report import ONLY, PAGE
from albert.settings.fields import Settings, setting
from albert.tasks.squad import NBEST, ODDS, PREDICTIONS

ENTRY_POINT = EntryPoint("albert.commands.show", needs_tensorflow=False)


class ShowSettings(Settings):
    """Which predictions are shown, and which files they come from."""

    start_sample: int = setting(0, "Number of the first sample to show.", lower=0)
    num_samples: int = setting(3, "How many samples to show.", lower=0)
    only: str = setting("all", "Which samples to show, and to count.", choices=tuple(ONLY))
    data: str | None = setting(None, "SQuAD JSON with the questions, of 1.1 or 2.0.")
    predictions: str | None = setting(None, f"Answers. Default: {PREDICTIONS} in FOLDER.")
    nbest_file: str | None = setting(
        None, f"n-best lists as runs write them. Default: {NBEST}, if it is there."
    )
    null_odds_file: str | None = setting(
        None, f"Log-odds of no answer. Default: {ODDS}, if it is there."
    )
    page: str | None = setting(
        None, f"Where to write the page. Default: {PAGE} beside --predictions."
    )


def parse(argv: list[str]) -> tuple[ShowSettings, list[str]]:
    """Returns the settings and the arguments of a command line."""
    arguments = command_line.parse(argv, __doc__, ShowSettings, arguments=True)
    return ShowSettings.from_flags(), arguments
