"""Trains a SentencePiece model with ALBERT's special pieces and ids on text files.

  albert sentencepiece --input_file='text/*.txt' --model_prefix=spm --vocab_size=30000

Writes spm.model and spm.vocab. The text is prepared as the tokenizer prepares it. The same command
does nothing if the model is there and was made from the same text.
"""

from __future__ import annotations

from absl import flags

from albert.cli import command_line
from albert.cli.commands import Work

WORK = Work("albert.commands.sentencepiece")


def define_flags() -> None:
    """Defines what is trained on, and how large the model is."""
    flags.DEFINE_string(
        "input_file",
        None,
        "Text files, a sentence a line: names or globs, with commas. Required.",
    )
    flags.DEFINE_string("model_prefix", None, "Write PREFIX.model and PREFIX.vocab. Required.")
    flags.DEFINE_integer("vocab_size", 30000, "Number of pieces.", lower_bound=1)
    flags.DEFINE_bool("do_lower_case", True, "Lower-case the text; true for all published ALBERTs.")
    flags.DEFINE_float(
        "character_coverage",
        0.99995,
        "Part of the text's characters that are to have a piece.",
        lower_bound=0.98,
        upper_bound=1.0,
    )
    flags.DEFINE_integer(
        "input_sentence_size",
        10_000_000,
        "Sentences to train on, which are drawn at random if there are more; bounds the memory.",
        lower_bound=101,
    )
    flags.DEFINE_integer("num_threads", 16, "Threads; the model depends on it.", lower_bound=1)


def parse(argv: list[str]) -> list[str]:
    """Parses the flags; returns what is left of the command line."""
    define_flags()
    return command_line.parse(argv, __doc__)
