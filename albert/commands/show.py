"""Shows predictions next to the true answers: some in the terminal, all on a page for a browser."""

from __future__ import annotations

import itertools
import os

from albert.cli import require_standard_output
from albert.cli.show import ShowSettings
from albert.core.errors import FlagError, UserError
from albert.report import ONLY, PAGE
from albert.report.page import read_page, write_page
from albert.report.terminal import lines_of, style_of_output
from albert.tasks.squad import NBEST, ODDS, PREDICTIONS
from albert.tasks.squad.comparison import Predictions, QuestionFile
from albert.tasks.squad.view import answers_view


def main(asked: tuple[ShowSettings, list[str]]) -> None:
    """Finds or writes the page, and prints some of its samples."""
    require_standard_output()
    settings, folders = asked
    if len(folders) > 1 or bool(folders) == bool(settings.predictions):
        raise FlagError("pass either the folder of a run, or --predictions and --data; see --help")
    if folders and not os.path.isdir(folders[0]):
        what = "is a file" if os.path.exists(folders[0]) else "does not exist"
        raise UserError(f"{folders[0]} {what}; pass the --output_dir of a run")
    predictions = settings.predictions or os.path.join(folders[0], PREDICTIONS)
    page = settings.page or os.path.join(os.path.dirname(predictions), PAGE)
    if settings.data:
        write_page(page, view_of_files(settings.data, predictions, settings))
    elif settings.predictions:
        raise FlagError("--predictions needs --data, the SQuAD file with the questions")
    elif not os.path.exists(page) and not os.path.exists(predictions):
        raise UserError(f"{folders[0]} has no predictions: neither {PAGE} nor {PREDICTIONS}")
    elif not os.path.exists(page):
        raise UserError(
            f"{page} does not exist: pass --data, the SQuAD file with the questions, or repeat the "
            "command of the run, which writes the page"
        )
    show(page, settings)


def view_of_files(data: str, predictions: str, settings: ShowSettings) -> dict:
    """Returns the view of the files that the flags name, or of those in the run's folder.

    Raises:
      UserError: a file is malformed, or the files do not belong together.
    """
    questions = QuestionFile(data)
    beside = None if settings.predictions else os.path.dirname(predictions)
    odds = settings.null_odds_file or _file_of_run(beside, ODDS)
    nbest = settings.nbest_file or _file_of_run(beside, NBEST)
    found = Predictions(
        questions.read_predictions(predictions), questions.read_odds(odds) if odds else None
    )
    found.check(questions)
    is_known = questions.has_answers()
    version = "2.0" if questions.is_version_2 else "1.1"
    # The predictions are shown as they are: a system that abstains has already done so.
    answered = found._replace(odds=None)
    return answers_view(
        f"SQuAD {version}: {os.path.basename(data)}",
        questions.articles,
        found.answers,
        answered.scores(questions) if is_known else {},
        answered.raw_scores(questions) if is_known else None,
        questions.read_nbest(nbest).items() if nbest else (),
        found.odds,
    )


def _file_of_run(folder: str | None, name: str) -> str | None:
    """Returns the path of a run's file, or None if it does not exist."""
    path = os.path.join(folder or "", name)
    return path if folder is not None and os.path.exists(path) else None


def show(page: str, settings: ShowSettings) -> None:
    """Prints samples of a page, their number, and the page's path."""
    view = read_page(page)
    chosen = list(filter(ONLY[settings.only], view["samples"]))
    start = settings.start_sample
    if not chosen:
        print(f"None of {len(view['samples'])} samples is {settings.only}.")
    elif start >= len(chosen):
        raise FlagError(
            f"--start_sample {start} is too large: there are {len(chosen)} samples, counted from 0"
        )
    for sample in itertools.islice(chosen, start, start + settings.num_samples):
        for line in lines_of(view, sample, style_of_output()):
            print(line)
    which = "" if settings.only == "all" else f", of which {len(chosen)} are {settings.only}"
    print(f"{len(view['samples'])} samples{which}. To see them in a browser, open {page}")
