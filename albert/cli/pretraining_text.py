r"""Makes text for pretraining from Wikipedia's dumps, folders of texts, and JSON Lines.

  albert pretraining-text --input=enwiki-latest-pages-articles.xml.bz2 --output_dir=text \
    --dev_fraction=0.001
  albert pretraining-text --input=books/,'news/*.jsonl.zst' --output_dir=text --min_chars=200

Writes one sentence per line, and a blank line between documents, as `albert pretraining-data` reads
it: text/train-00000.txt and so on, text/dev-00000.txt for the held-out part, and text/report.json.
The input is streamed, so it may be larger than memory. The text does not depend on the number of
worker processes.
"""

from __future__ import annotations

from albert.cli import command_line
from albert.cli.main import EntryPoint
from albert.core.cores import default_processes
from albert.settings.fields import Settings, setting

ENTRY_POINT = EntryPoint("albert.commands.pretraining_text", needs_tensorflow=False)


class PretrainingTextSettings(Settings):
    """The input, and which documents to keep."""

    input: str = setting(
        "",
        "Files and folders, names or globs, separated by commas: MediaWiki's dumps (.xml), texts "
        "(.txt) and JSON Lines (.jsonl), also compressed (.bz2, .gz, .zst). Required.",
    )
    output_dir: str = setting("", "New folder for the text. Required.")
    language: str = setting(
        "en",
        "Code of the text's language, such as en or de, for splitting it into sentences. If "
        "sentencex has no rules for it, it uses those of a related language, or of English.",
    )
    text_field: str = setting("text", "Field of a line of JSON Lines that holds the text.")
    blank_line_ends_document: bool = setting(
        False,
        "Begin a new document after each blank line of a .txt file. Otherwise a file is one "
        "document, and blank lines separate its paragraphs.",
    )
    min_chars: int = setting(0, "Fewest characters of a document.", lower=0)
    max_chars: int = setting(0, "Most characters of a document; 0 for no limit.", lower=0)
    min_sentences: int = setting(
        2, "Fewest sentences of a document. A single sentence has no order to learn.", lower=1
    )
    deduplicate: bool = setting(
        True,
        "Drop documents that are equal to an earlier one, except in case, width of characters and "
        "white space.",
    )
    dev_fraction: float = setting(
        0.0,
        "Fraction of the documents to hold out, in separate files. A document's content decides, "
        "so that it is held out again in other runs.",
        lower=0.0,
        upper=1.0,
    )
    file_mb: int = setting(
        256, "Greatest size of an output file in MB; a document is never split.", lower=1
    )
    preprocess_workers: int = setting(
        default_processes(),
        "Number of worker processes; does not affect the text. Default: the number of cores, "
        "or 1 on macOS.",
        lower=1,
    )


def parse(argv: list[str]) -> PretrainingTextSettings:
    """Parses a command line and returns its settings."""
    command_line.parse(argv, __doc__, PretrainingTextSettings)
    return PretrainingTextSettings.from_flags()
