r"""Shows predictions beside what is true: some on the terminal, all in a page for a browser.

  albert show FOLDER [--only=wrong] [--start_sample=0] [--num_samples=3]
  albert show --predictions=predictions.json --data=dev-v1.1.json

FOLDER is an --output_dir; its run has written the page, predictions.html. With --data the page is
made anew, of a SQuAD file and of the files in FOLDER, or of those that flags name: of whatever
system, a JSON object of question id to answer.
"""

from __future__ import annotations

from absl import flags

from albert.cli import command_line
from albert.cli.commands import Work
from albert.report import ONLY, PAGE
from albert.tasks.squad import NBEST, ODDS, PREDICTIONS

WORK = Work("albert.commands.show", needs_tensorflow=False)


def define_flags() -> None:
    """Defines which predictions are shown, and which files they come from."""
    flags.DEFINE_integer("start_sample", 0, "Number of the first sample to show.", lower_bound=0)
    flags.DEFINE_integer("num_samples", 3, "How many samples to show.", lower_bound=0)
    flags.DEFINE_enum("only", "all", list(ONLY), "Which samples to show, and to count.")
    flags.DEFINE_string("data", None, "SQuAD JSON with the questions, of 1.1 or 2.0.")
    flags.DEFINE_string("predictions", None, f"Answers. Default: {PREDICTIONS} in FOLDER.")
    flags.DEFINE_string(
        "nbest_file", None, f"n-best lists as runs write them. Default: {NBEST}, if it is there."
    )
    flags.DEFINE_string(
        "null_odds_file", None, f"Log-odds of no answer. Default: {ODDS}, if it is there."
    )
    flags.DEFINE_string(
        "page", None, f"Where to write the page. Default: {PAGE} beside --predictions."
    )


def parse(argv: list[str]) -> list[str]:
    """Returns the command line without its flags, which are parsed."""
    define_flags()
    return command_line.parse(argv, __doc__, takes_arguments=True)
