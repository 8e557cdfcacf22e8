"""Makes text for pretraining from Wikipedia's dumps, folders of texts, and JSON Lines."""

from __future__ import annotations

from albert.cli import require_standard_output
from albert.cli.pretraining_text import PretrainingTextSettings
from albert.core.errors import FlagError
from albert.core.text import aligned
from albert.corpus.conversion import COUNTS, Options, check_faults, make_corpus
from albert.corpus.sentences import check_language
from albert.corpus.sources import find_sources

# The widest name of an input that the table shows as a whole.
_NAME = 40


def main(settings: PretrainingTextSettings) -> None:
    """Makes the text and prints a table of what was read, kept and dropped."""
    settings.require("input", "output_dir")
    if settings.max_chars and settings.max_chars < settings.min_chars:
        raise FlagError(
            f"--max_chars {settings.max_chars} is less than --min_chars {settings.min_chars}"
        )
    check_language(settings.language)
    require_standard_output()
    sources = find_sources(settings.input, settings.output_dir)
    options = Options(*(getattr(settings, name) for name in Options._fields))
    report = make_corpus(sources, settings.output_dir, options, settings.preprocess_workers)
    print_table(report)
    check_faults(report, settings.output_dir)


def print_table(report: dict) -> None:
    """Prints a row for each input, and one for all; without columns that have only zeros."""
    columns = [name for name in COUNTS if report["totals"][name]]
    inputs = [(one["name"][-_NAME:], one) for one in report["inputs"]]
    if len(inputs) > 1:
        inputs.append(("all", report["totals"]))
    rows = [[name, *(f"{counts[column]:,}" for column in columns)] for name, counts in inputs]
    print("\n".join(aligned([["input", *columns], *rows], right=True)))
