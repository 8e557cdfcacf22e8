r"""Writes embeddings of texts: the encoder's states of their tokens, or its pooled output.

  albert embed --input_file=texts.txt --output_file=embeddings.jsonl \
    --init_checkpoint=MODEL --layers=-1,-2,-3,-4

A text a line, or two with " ||| " between them. MODEL is what --export_dir or --output_dir of a run
has made; or a checkpoint, with --albert_config_file and --spm_model_file, or --bert_config_file and
--vocab_file. The flags and the JSON are those of Google's extract_features.py.
"""

from __future__ import annotations

from albert.cli import command_line
from albert.cli.commands import Work
from albert.settings.flags import (
    DATA,
    FEATURES,
    LARGEST_BATCH,
    LONGEST_SEQUENCE,
    MODEL,
    Shapes,
    define,
    define_alias,
)
from albert.settings.run_flags import define_ignored_flags

WORK = Work("albert.commands.embed")


def define_flags() -> None:
    """Defines where texts and model are, and what is written."""
    data, model, features = (define(theme, Shapes.NOTHING) for theme in (DATA, MODEL, FEATURES))
    data.path("input_file", None, 'Texts, a line each, or two with " ||| " between them. Required.')
    data.path("output_file", None, "Embeddings of the texts, in the same order. Required.")
    data.choice(
        "output_format",
        "json",
        ["json", "npz"],
        "json: a line a text, with linex_index and features. npz: NumPy arrays, much smaller.",
    )
    data.text("layers", "-1,-2,-3,-4", "Numbers of layers; -1 is the last. May be empty.")
    data.switch("pooled", False, "Write the pooled output, a vector a text, too.")
    text = "A folder that --export_dir or --output_dir has made, or a checkpoint. Required."
    model.path("init_checkpoint", None, text)
    name, alias = "albert_config_file", "bert_config_file"
    model.path(name, None, "JSON of the model's sizes; not needed with such a folder.")
    define_alias(alias, name)
    model.path("spm_model_file", None, "SentencePiece model, likewise.")
    model.path("vocab_file", None, "WordPiece vocabulary, likewise.")
    model.switch("do_lower_case", True, "Lower-case the text, likewise.")
    bounds = {"lower_bound": 5, "upper_bound": LONGEST_SEQUENCE}
    features.integer("max_seq_length", 128, "Tokens of a text; the rest is cut off.", **bounds)
    bounds = {"lower_bound": 1, "upper_bound": LARGEST_BATCH}
    features.integer("batch_size", 32, "Texts that go through the model together.", **bounds)
    define_ignored_flags()


def parse(argv: list[str]) -> list[str]:
    """Parses the flags; returns what is left of the command line."""
    define_flags()
    return command_line.parse(argv, __doc__)
