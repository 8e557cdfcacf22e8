r"""Shows predictions next to the true answers: some in the terminal, all on a page for a browser.

  albert show FOLDER [--only=wrong] [--start_sample=0] [--num_samples=3]
  albert show --predictions=predictions.json --data=dev-v1.1.json
  albert show MODEL --data=train-v1.1.json --start_sample=24100 --num_test_samples=10

FOLDER is the --output_dir of a run, which has written predictions.jsonl and, from that, the page,
predictions.html. Instead of FOLDER, pass --predictions and --data to show the answers of any
system, as a JSON file that maps question ids to answers. With --num_test_samples, the command runs
MODEL, an export or the --output_dir of a run, on that many questions of --data, and shows its
answers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from albert.cli import require_standard_output
from albert.core.errors import FlagError, UserError
from albert.core.log import progress
from albert.report import ONLY, PAGE
from albert.report import PREDICTIONS as SAMPLES
from albert.report.predictions import Sample, View, read_samples, write_page
from albert.report.terminal import lines_of, style_of_output
from albert.settings.fields import Settings, setting
from albert.tasks.squad import PREDICTIONS

# The help does not need NumPy.
if TYPE_CHECKING:
    from albert.tasks.squad.comparison import QuestionFile

NEEDS_TENSORFLOW, TAKES_ARGUMENTS = False, True
# Questions between two steps of the progress bar.
_BATCH = 32
# Flags that have no use if a model answers the questions.
_PREDICTION_FLAGS = {"predictions", "null_odds_file", "num_samples"}


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
    data: str | None = setting(None, "SQuAD JSON file or table with the questions.")
    predictions: str | None = setting(
        None, "JSON file that maps question ids to answers. The page is written next to it."
    )
    null_odds_file: str | None = setting(
        None, "JSON file with the log-odds of no answer, for --predictions."
    )


SETTINGS = ShowSettings


def main(request: tuple[ShowSettings, list[str]]) -> None:
    """Finds or writes the page, and prints some of its samples."""
    require_standard_output()
    settings, folders = request
    if settings.num_test_samples is not None:
        show_answers_of_model(folders, settings, settings.num_test_samples)
        return
    if len(folders) > 1 or bool(folders) == bool(settings.predictions):
        raise FlagError("pass either the folder of a run, or --predictions and --data; see --help")
    if settings.predictions:
        if not settings.data:
            raise FlagError("--predictions needs --data, the SQuAD file with the questions")
        page = os.path.join(os.path.dirname(settings.predictions), PAGE)
        view = view_of_files(settings.data, settings.predictions, settings.null_odds_file)
        write_page(page, view)
        show(view.samples, page, settings)
        return
    (folder,) = folders
    if unused := sorted({"data", "null_odds_file"} & settings.given):
        raise FlagError(f"--{unused[0]} needs --predictions, such as {folder}/{PREDICTIONS}")
    if not os.path.isdir(folder):
        what = "is a file" if os.path.exists(folder) else "does not exist"
        raise UserError(f"{folder} {what}; pass the --output_dir of a run")
    if not os.path.exists(os.path.join(folder, SAMPLES)):
        raise UserError(
            f"{folder} has no {SAMPLES}; repeat the command of the run, which writes the file, or "
            f"pass {PREDICTIONS} as --predictions, and the SQuAD file as --data"
        )
    show(read_samples(folder), os.path.join(folder, PAGE), settings)


def show_answers_of_model(models: list[str], settings: ShowSettings, count: int) -> None:
    """Runs a model on a range of a file's questions, and prints its answers in their paragraphs."""
    if len(models) != 1 or not settings.data:
        raise FlagError("--num_test_samples needs a model and --data")
    if unused := sorted(_PREDICTION_FLAGS & settings.given):
        raise FlagError(
            f"--num_test_samples shows the answers of the model: remove --{' and --'.join(unused)}"
        )
    from albert.tasks.squad.comparison import QuestionFile

    questions = QuestionFile(settings.data, settings.start_sample, count)
    view = view_of_answers(models[0], questions)
    chosen = list(filter(ONLY[settings.only], view.samples))
    _print(chosen)
    first, last = settings.start_sample, settings.start_sample + len(questions.ids) - 1
    shown = f"Samples {first} to {last} of {len(questions)} in {settings.data}"
    # "total" and similar are numbers of questions.
    scores = [f"{n} {value:.2f}" for n, value in view.scores.items() if "total" not in n]
    print(shown + _which(len(chosen), settings) + ("; " + ", ".join(scores) if scores else ""))


def view_of_answers(folder: str, questions: QuestionFile) -> View:
    """Returns the view of a model's answers; raises a `UserError` unless it answers questions."""
    from albert.inference import load_model
    from albert.inference.squad import QuestionAnswerer
    from albert.tasks.squad.view import view_of

    # As the scores of a run.
    model = load_model(folder, precision="float32")
    if not isinstance(model, QuestionAnswerer):
        raise UserError(f"the model in {folder} was not trained on SQuAD: it answers no questions")
    pairs = [(question["question"], context) for context, question in questions]
    batches = [pairs[start : start + _BATCH] for start in range(0, len(pairs), _BATCH)]
    shown = progress(batches, len(batches), "prediction", "batches")
    results = (answered for batch in shown for answered in model.answer_all(batch))
    answers, odds, nbest = {}, {}, {}
    for qas_id, answered in zip(questions.ids, results, strict=True):
        best = answered.answers[0].text if answered.answers else ""
        answers[qas_id] = "" if answered.abstains else best
        nbest[qas_id] = [answer._asdict() for answer in answered.answers]
        odds[qas_id] = answered.no_answer_odds
    return view_of(questions, answers, odds, nbest)


def view_of_files(data: str, predictions: str, odds_file: str | None) -> View:
    """Returns the view of answers and perhaps odds; raises a `UserError` if they do not fit."""
    from albert.tasks.squad.comparison import QuestionFile
    from albert.tasks.squad.view import view_of

    questions = QuestionFile(data)
    return view_of(questions, *questions.predictions(predictions, odds_file))


def show(samples: Iterable[Sample], page: str, settings: ShowSettings) -> None:
    """Prints some samples, the number of all, and the path of their page."""
    start, total, chosen = settings.start_sample, 0, 0
    for sample in samples:
        total += 1
        if ONLY[settings.only](sample):
            _print([sample] * (start <= chosen < start + settings.num_samples))
            chosen += 1
    if not chosen:
        print(f"None of {total} samples is {settings.only}.")
    elif start >= chosen:
        raise FlagError(
            f"--start_sample {start} is too large: there are {chosen} samples, counted from 0"
        )
    print(f"{total} samples{_which(chosen, settings)}. To see them in a browser, open {page}")


def _print(samples: Iterable[Sample]) -> None:
    for sample in samples:
        print("\n".join(lines_of(sample, style_of_output())))


def _which(count: int, settings: ShowSettings) -> str:
    """Returns how many samples --only has chosen, for the end of a phrase."""
    return "" if settings.only == "all" else f", of which {count} are {settings.only}"
