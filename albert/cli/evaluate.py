r"""Scores answers like the official SQuAD 1.1 and 2.0 scripts, and compares systems or runs.

  albert evaluate PREDICTIONS --data=dev-v2.0.json [--null_odds_file=null_odds.json]
  albert evaluate PREDICTIONS OTHER_PREDICTIONS --data=dev-v2.0.json
  albert evaluate RUN [RUN ...]

PREDICTIONS is a JSON file that maps question ids to answers, from any system, or the --output_dir
of a run that has written one. For two of them, the report gives the difference of their scores with
its 95% bootstrap interval. RUN is an --output_dir or its eval_results.json, of any task. For one
run, the report shows its scores; for several runs, the median and the spread of each score.
"""

from __future__ import annotations

from albert.cli import command_line
from albert.cli.main import EntryPoint
from albert.settings.fields import Settings, setting

ENTRY_POINT = EntryPoint("albert.commands.evaluate", needs_tensorflow=False)


class EvaluateSettings(Settings):
    """The data to compare the predictions with, and the output format."""

    data: str | None = setting(None, "SQuAD 1.1 or 2.0 JSON file with the true answers.")
    null_odds_file: tuple[str, ...] = setting(
        (),
        "SQuAD 2.0: JSON file that maps question ids to scores; the higher the score, the likelier "
        "that there is no answer. Same as --na-prob-file of the official script. For two files of "
        "predictions, pass it twice.",
    )
    na_prob_thresh: float = setting(
        1.0,
        "SQuAD 2.0: score in --null_odds_file above which a question counts as unanswered. The "
        "default is that of the official script.",
    )
    seed: int = setting(12345, "Seed for the bootstrap resampling.", lower=0)
    json: bool = setting(False, "Print JSON instead of tables.")


def parse(argv: list[str]) -> tuple[EvaluateSettings, list[str]]:
    """Parses a command line and returns its settings and arguments."""
    arguments = command_line.parse(argv, __doc__, EvaluateSettings, arguments=True)
    return EvaluateSettings.from_flags(), arguments
