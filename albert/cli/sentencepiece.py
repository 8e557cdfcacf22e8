"""Trains a SentencePiece model with ALBERT's special pieces and ids on text files.

  albert sentencepiece --input_file='text/*.txt' --model_prefix=spm --vocab_size=30000

Writes spm.model and spm.vocab. The text is prepared as the tokenizer prepares it. The same command
does nothing if the model is there and was made from the same text.
"""

from __future__ import annotations

from albert.cli import command_line
from albert.cli.main import EntryPoint
from albert.settings.fields import Settings, setting

ENTRY_POINT = EntryPoint("albert.commands.sentencepiece")


class SentencePieceSettings(Settings):
    """What is trained on, and how large the model is."""

    input_file: str = setting(
        "", "Text files, a sentence a line: names or globs, with commas. Required."
    )
    model_prefix: str = setting("", "Write PREFIX.model and PREFIX.vocab. Required.")
    vocab_size: int = setting(30000, "Number of pieces.", lower=1)
    do_lower_case: bool = setting(True, "Lower-case the text; true for all published ALBERTs.")
    character_coverage: float = setting(
        0.99995, "Part of the text's characters that are to have a piece.", lower=0.98, upper=1.0
    )
    input_sentence_size: int = setting(
        10_000_000,
        "Sentences to train on, which are drawn at random if there are more; bounds the memory.",
        lower=101,
    )
    num_threads: int = setting(16, "Threads; the model depends on it.", lower=1)


def parse(argv: list[str]) -> SentencePieceSettings:
    """Returns the settings of a command line."""
    command_line.parse(argv, __doc__, SentencePieceSettings)
    return SentencePieceSettings.from_flags()
