r"""Scores answers from files as the official scripts of SQuAD 1.1 and 2.0 do, and compares them.

  albert evaluate PREDICTIONS --data=dev-v2.0.json [--null_odds_file=null_odds.json]
  albert evaluate PREDICTIONS OTHER_PREDICTIONS --data=dev-v2.0.json
  albert evaluate RUN [RUN ...]

PREDICTIONS is a JSON object of question id to answer, of any system, or the --output_dir of a run
that has written one. Of two of them the difference of their scores is given with its 95% bootstrap
interval. RUN is an --output_dir or its eval_results.json, of any task: its scores are shown, and of
several the median and the spread of every score.
"""

from __future__ import annotations

from albert.cli import command_line
from albert.cli.main import EntryPoint
from albert.settings.fields import Settings, setting

ENTRY_POINT = EntryPoint("albert.commands.evaluate", needs_tensorflow=False)


class EvaluateSettings(Settings):
    """What the predictions are compared with, and how that is printed."""

    data: str | None = setting(None, "SQuAD JSON with the true answers, of 1.1 or 2.0.")
    null_odds_file: tuple[str, ...] = setting(
        (),
        "SQuAD 2.0: JSON object of question id to a number that grows with there being no answer, "
        "as the official script's --na-prob-file; for two files of predictions give it twice.",
    )
    na_prob_thresh: float = setting(
        1.0,
        "SQuAD 2.0: the number in --null_odds_file above which a question is left unanswered; the "
        "default is the official script's.",
    )
    seed: int = setting(12345, "Seed of the bootstrap resampling.", lower=0)
    json: bool = setting(False, "Print JSON instead of tables.")


def parse(argv: list[str]) -> tuple[EvaluateSettings, list[str]]:
    """Returns the settings and the arguments of a command line."""
    arguments = command_line.parse(argv, __doc__, EvaluateSettings, arguments=True)
    return EvaluateSettings.from_flags(), arguments
