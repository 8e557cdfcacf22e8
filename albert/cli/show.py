r"""Shows predictions next to the true answers: some in the terminal, all on a page for a browser.

  albert show FOLDER [--only=wrong] [--start_sample=0] [--num_samples=3]
  albert show --predictions=predictions.json --data=dev-v1.1.json
  albert show MODEL --data=train-v1.1.json --start_sample=24100 --num_test_samples=10

FOLDER is the --output_dir of a run, which has written predictions.jsonl and, from that, the page,
predictions.html. With --data, the command writes the page again, from a SQuAD file and the answers
in FOLDER's predictions.json. Instead of FOLDER, pass --predictions to show the answers of any
system, as a JSON file that maps question ids to answers. With --num_test_samples, the command runs
MODEL, an export or the --output_dir of a run, on that many questions of --data, and shows its
answers.
"""

from __future__ import annotations

from albert.cli import command_line
from albert.cli.main import EntryPoint
from albert.report import ONLY, PAGE
from albert.settings.fields import Settings, setting
from albert.tasks.squad import NBEST, ODDS, PREDICTIONS

ENTRY_POINT = EntryPoint("albert.commands.show", needs_tensorflow=False)


class ShowSettings(Settings):
    """The predictions to show, and the files that contain them."""

    start_sample: int = setting(0, "Number of the first sample to show, from 0.", lower=0)
    num_samples: int = setting(3, "Number of samples to show in the terminal.", lower=0)
    num_test_samples: int | None = setting(
        None,
        "Number of questions of --data on which to run the model, from --start_sample on.",
        lower=1,
    )
    only: str = setting("all", "Kind of samples to show and count.", choices=tuple(ONLY))
    data: str | None = setting(None, "SQuAD 1.1 or 2.0 JSON file with the questions.")
    predictions: str | None = setting(
        None, f"JSON file that maps question ids to answers. Default: {PREDICTIONS} in FOLDER."
    )
    nbest_file: str | None = setting(
        None, f"JSON file with n-best answers, as a run writes it. Default: {NBEST} in FOLDER."
    )
    null_odds_file: str | None = setting(
        None, f"JSON file with the log-odds of no answer. Default: {ODDS} in FOLDER."
    )
    page: str | None = setting(
        None, f"Page to write from --data. Default: {PAGE} in the folder of --predictions."
    )


def parse(argv: list[str]) -> tuple[ShowSettings, list[str]]:
    """Parses a command line and returns its settings and arguments."""
    arguments = command_line.parse(argv, __doc__, ShowSettings, arguments=True)
    return ShowSettings.from_flags(), arguments
