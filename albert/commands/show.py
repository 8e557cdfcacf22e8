"""Shows predictions beside what is true: some on the terminal, all in a page for a browser."""

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
    """Finds or writes the page, and shows some of its samples."""
    require_standard_output()
    settings, folders = asked
    if len(folders) > 1 or bool(folders) == bool(settings.predictions):
        raise FlagError("name the folder of a run, or --predictions and --data; see --help")
    if folders and not os.path.isdir(folders[0]):
        what = "a file" if os.path.exists(folders[0]) else "not there"
        raise UserError(f"{folders[0]} is {what}: name the --output_dir of a run")
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
            f"{page} is not there: give --data, the SQuAD file with the questions, or the command "
            "of the run once more, which writes the page"
        )
    show(page, settings)


def view_of_files(data: str, predictions: str, settings: ShowSettings) -> dict:
    """Returns the view of the files that the flags name, or of those beside the predictions.

    Raises:
      UserError: one is not as it should be, or they do not belong together.
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
    # What the files say is shown: who abstains has done so.
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
    """Returns the file of a run, if there is one."""
    path = os.path.join(folder or "", name)
    return path if folder is not None and os.path.exists(path) else None


def show(page: str, settings: ShowSettings) -> None:
    """Prints samples of a page, how many there are, and where it is."""
    view = read_page(page)
    chosen = list(filter(ONLY[settings.only], view["samples"]))
    start = settings.start_sample
    if not chosen:
        print(f"None of {len(view['samples'])} samples is {settings.only}.")
    elif start >= len(chosen):
        raise FlagError(f"--start_sample {start}: there are {len(chosen)}, counted from 0")
    for sample in itertools.islice(chosen, start, start + settings.num_samples):
        for line in lines_of(view, sample, style_of_output()):
            print(line)
    which = "" if settings.only == "all" else f", of which {len(chosen)} are {settings.only}"
    print(f"{len(view['samples'])} samples{which}. A page for a browser: {page}")
