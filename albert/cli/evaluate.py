r"""Scores answers like the official SQuAD 1.1 and 2.0 scripts, and compares systems or runs.

  albert evaluate PREDICTIONS --data=dev-v2.0.json [--null_odds_file=null_odds.json]
  albert evaluate PREDICTIONS --data=dev-de.json --metric=mlqa --language=de
  albert evaluate PREDICTIONS OTHER_PREDICTIONS --data=dev-v2.0.json
  albert evaluate RUN [RUN ...]

PREDICTIONS is a JSON file that maps question ids to answers, from any system, or a list as the
library `evaluate` takes it, or the --output_dir of a run that has written one. For two of them, the
report gives the difference of their scores with its 95% interval. RUN is an --output_dir
or its eval_results.json, of any task. For one run, the report shows its scores, and those of each
label; for several runs, the median and the spread of each score.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from albert.cli import require_standard_output
from albert.core.errors import FlagError, UserError
from albert.core.files import print_json, read_json
from albert.core.text import aligned, one_line
from albert.report import PREDICTIONS as SAMPLES
from albert.report.classes import Classes
from albert.report.predictions import read_samples
from albert.report.terminal import width_of_output
from albert.settings.fields import Settings, setting
from albert.tasks.squad import PREDICTIONS

# The help does not need NumPy.
if TYPE_CHECKING:
    from albert.tasks.squad.comparison import Predictions, QuestionFile
    from albert.tasks.squad.scoring import Scorer

NEEDS_TENSORFLOW, TAKES_ARGUMENTS = False, True
_NAMED = 5  # the number of questions to list
_table = functools.partial(aligned, right=True)


class EvaluateSettings(Settings):
    """The data to compare the predictions with, and the output format."""

    data: str | None = setting(None, "SQuAD JSON file or table with the true answers.")
    metric: str = setting(
        "squad",
        "Rules that normalize and compare answers: squad, mlqa (those of MLQA for --language), or "
        "character, whose F1 counts characters (those of KorQuAD 1.0, or of DRCD with "
        "--language=zh).",
        choices=("squad", "mlqa", "character"),
    )
    language: str | None = setting(
        None,
        "Language of the answers: ar, de, en, es, hi, vi or zh for mlqa, and ko or zh for "
        "character.",
    )
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
    json: bool = setting(False, "Print JSON instead of tables.")


SETTINGS = EvaluateSettings


def main(request: tuple[EvaluateSettings, list[str]]) -> None:
    """Scores one file, compares two files, or summarizes runs."""
    require_standard_output()
    settings, paths = request
    if not paths:
        raise FlagError("pass a file of predictions, or folders of runs; see --help")
    if settings.data:
        questions, files = read_files(settings.data, paths, settings)
        report, lines = (compare_files if len(files) > 1 else score_file)(questions, *files)
    elif {"metric", "language"} & settings.given:
        raise FlagError("--metric and --language need --data")
    else:
        report, lines = summarize_runs(paths)
    if settings.json:
        print_json(report, indent=2)
    else:
        print("\n".join(lines))


def read_files(
    data: str, paths: Sequence[str], settings: EvaluateSettings
) -> tuple[QuestionFile, list[Predictions]]:
    """Reads questions and predictions; raises a `UserError` if one is malformed or unrelated."""
    from albert.tasks.squad.comparison import Predictions, QuestionFile
    from albert.tasks.squad.languages import scorer_of

    if len(paths) > 2:
        raise FlagError(f"--data takes one or two files of predictions, not {len(paths)}")
    questions = QuestionFile(data)
    if not questions.has_answers():
        raise UserError(f"--data {data} has no answers; pass a file with answers")
    is_v2, metric = questions.is_version_2, settings.metric
    if settings.null_odds_file and not is_v2:
        raise FlagError(f"--null_odds_file is for SQuAD 2.0; {data} is SQuAD 1.1")
    if metric != "squad" and is_v2:
        raise FlagError(f"--metric={metric} is for SQuAD 1.1; {data} is SQuAD 2.0")
    paths = [os.path.join(path, PREDICTIONS) if os.path.isdir(path) else path for path in paths]
    # Predictions in the form of the library `evaluate` may have their own.
    own = (path if is_v2 and questions.has_odds(path) else "" for path in paths)
    odds = settings.null_odds_file or tuple(own)
    if len(odds) != len(paths):
        count = f"{len(odds)} times for {len(paths)} files of predictions"
        raise FlagError(f"--null_odds_file is given {count}; pass it once for each of them")
    if "na_prob_thresh" in settings.given and not all(odds):
        raise FlagError("--na_prob_thresh needs --null_odds_file")
    threshold, new_scorer = settings.na_prob_thresh, scorer_of(metric, settings.language)
    files = [
        Predictions(*questions.predictions(path, odds_path or None), threshold, new_scorer)
        for path, odds_path in zip(paths, odds, strict=True)
    ]
    return questions, files


def score_file(questions: QuestionFile, predictions: Predictions) -> tuple[dict, list[str]]:
    """Returns the scores of a file, as a dictionary and as lines of a table."""
    scorer = predictions.scored(questions)
    scores = scorer.totals()
    rows = [[name, _shown(value)] for name, value in scores.items()]
    return {**scores, "left_out": _left_out(scorer)}, _table(rows)


def compare_files(
    questions: QuestionFile, first: Predictions, second: Predictions
) -> tuple[dict, list[str]]:
    """Returns the scores of two files and their differences, in both forms."""
    from albert.tasks.squad.comparison import compare

    scorers = [predictions.scored(questions) for predictions in (first, second)]
    scores = [scorer.totals() for scorer in scorers]
    raw = [scorer.by_question() for scorer in scorers]
    if not raw[0][0].keys() & raw[1][0].keys():
        raise UserError("the two files have no answered question in common")
    names = [name for name in ("exact_match", "exact", "f1") if name in scores[0]]
    differences = {
        name: compare(before, after)
        for name, (before, after) in zip(names, zip(*raw, strict=True), strict=True)
    }
    rows = [["", "first", "second", "difference", "95% interval", "better", "worse"]]
    for name in scores[0]:
        row = [name, *(_shown(s.get(name)) for s in scores)]
        if name in differences:
            mean, low, high, better, worse = differences[name]
            interval = f"{low:+.2f} to {high:+.2f}"
            row += [f"{mean:+.2f}", interval, str(len(better)), str(len(worse))]
        rows.append(row)
    lines = _table(rows)
    named = {*differences["f1"].better[:_NAMED], *differences["f1"].worse[:_NAMED]}
    texts = {q["id"]: q["question"] for _, q in questions if q["id"] in named}
    for what in ("better", "worse"):
        ids = getattr(differences["f1"], what)
        lines += [f"the second is {what} on:"] * bool(ids)
        for qas_id in ids[:_NAMED]:
            answers = (p.answers.get(qas_id) or "(none)" for p in (first, second))
            shown = " -> ".join(map(one_line, answers))
            lines.append(f"  {qas_id}: {one_line(texts[qas_id])} {shown}")
    report = {
        **{name: s for name, s in zip(("first", "second"), scores, strict=True)},
        "difference": {name: difference._asdict() for name, difference in differences.items()},
        "left_out": list(map(_left_out, scorers)),
    }
    return report, lines


def summarize_runs(paths: Sequence[str]) -> tuple[dict, list[str]]:
    """Returns the scores of a run, or the median and spread of several runs, in both forms."""
    from albert.training.spread import spread_of_runs

    if len(paths) == 1:
        scores, has_samples = _scores_of_run(paths[0]), os.path.exists(f"{paths[0]}/{SAMPLES}")
        classes = Classes(read_samples(paths[0]) if has_samples else ())
        lines = _table([[name, f"{value:.4g}"] for name, value in scores.items()])
        return scores | classes.as_json(), [*lines, *classes.lines(width_of_output())]
    spreads = spread_of_runs([_scores_of_run(path) for path in paths])
    if not spreads:
        raise UserError(f"the runs have no score in common: {', '.join(paths)}")
    rows = [[f"of {len(paths)} runs", "median", "lowest", "highest", "deviation"]]
    rows += [[name, *(f"{value:.4g}" for value in spread)] for name, spread in spreads.items()]
    report = {"runs": list(paths)}
    return report | {name: spread._asdict() for name, spread in spreads.items()}, _table(rows)


def _scores_of_run(path: str) -> dict[str, float]:
    """Returns the best checkpoint's scores; raises a `UserError` without a valid record of them."""
    path = os.path.join(path, "eval_results.json") if os.path.isdir(path) else path
    record = read_json(path, "the record of scores")
    scores = record if isinstance(record, dict) else {}
    # Steps, counts and versions are whole numbers.
    floats = {name: value for name, value in scores.items() if isinstance(value, float)}
    if not floats:
        raise UserError(f"{path} is not a record of scores; for predictions, pass --data")
    return floats


def _left_out(scorer: Scorer) -> dict[str, Any]:
    return {"count": len(scorer.missing), "first": scorer.missing[:_NAMED]}


def _shown(value: float | None) -> str:
    return "-" if value is None else str(value) if isinstance(value, int) else f"{value:.2f}"
