r"""Makes text for pretraining from texts, JSON Lines, Parquet and WikiExtractor's output.

  albert pretraining-text --input=wikipedia/20231101.en --output_dir=text --dev_fraction=0.001
  albert pretraining-text --input=books/,'news/*.jsonl.zst' --output_dir=text --min_chars=200

Writes one sentence per line, and a blank line between documents, as `albert pretraining-data` reads
it: text/train.txt, text/dev.txt for the held-out part, and text/report.json. The input is streamed,
so it may be larger than memory. The text does not depend on the number of worker processes.
"""

from __future__ import annotations

from albert.cli import require_standard_output
from albert.core.errors import UserError
from albert.core.processes import default_processes
from albert.settings.fields import Settings, setting

NEEDS_TENSORFLOW = False


class PretrainingTextSettings(Settings):
    """The input, and which documents to keep."""

    input: str = setting(
        "",
        "Files and folders, names or globs, separated by commas: texts (.txt), JSON Lines (.jsonl) "
        "and WikiExtractor's files (wiki_00), also compressed (.bz2, .gz, .zst), and Parquet "
        "(.parquet). Required.",
    )
    output_dir: str = setting("", "New folder for the text. Required.")
    language: str = setting(
        "en",
        "Code of the text's language, such as en or de, for splitting it into sentences. If "
        "sentencex has no rules for it, it uses those of a related language, or of English.",
    )
    text_field: str = setting(
        "text", "Field of JSON Lines, or column of Parquet, that holds the text."
    )
    blank_line_ends_document: bool = setting(
        False,
        "Begin a new document after each blank line of a .txt file. Otherwise a file is one "
        "document, and blank lines separate its paragraphs.",
    )
    min_chars: int = setting(0, "Fewest characters of a document.", lower=0)
    dev_fraction: float = setting(
        0.0,
        "Fraction of the documents to hold out, in another file. A document's content decides, "
        "so that it is held out again in other runs.",
        lower=0.0,
        upper=1.0,
    )
    preprocess_workers: int = setting(
        default_processes(),
        "Number of worker processes; does not affect the text. Default: the number of cores, "
        "or 1 on macOS.",
        lower=1,
    )


SETTINGS = PretrainingTextSettings


def main(settings: PretrainingTextSettings) -> None:
    """Makes the text and prints how much was read, kept and dropped.

    Raises a `UserError` at the end if a part of the input could not be read.
    """
    from albert.corpus.conversion import REPORT, Options, check_language, counted, make_corpus
    from albert.corpus.sources import find_files

    settings.require("input", "output_dir")
    check_language(settings.language)
    require_standard_output()
    files = find_files(settings.input, settings.output_dir)
    options = Options(*(getattr(settings, name) for name in Options._fields))
    report = make_corpus(files, settings.output_dir, options, settings.preprocess_workers)
    print(counted(report["totals"]))
    if faults := report["faults"]:
        more = f"; {REPORT} has {len(faults) - 1} more" if len(faults) > 1 else ""
        raise UserError(
            f"{faults[0]}{more}. The text of the rest is in {settings.output_dir}; repair or leave "
            "out what is damaged, and write to another folder"
        )
