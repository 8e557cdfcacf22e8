r"""Writes embeddings of texts: the encoder's states of their tokens, or its pooled output.

  albert embed --input_file=texts.txt --output_file=embeddings.jsonl \
    --init_checkpoint=MODEL --layers=-1,-2,-3,-4

A text a line, or two with " ||| " between them. MODEL is what --export_dir or --output_dir of a run
has made; or a checkpoint, with --albert_config_file and --spm_model_file, or --bert_config_file and
--vocab_file. The flags and the JSON are those of Google's extract_features.py.
"""

from __future__ import annotations

from albert.cli import command_line
from albert.cli.main import EntryPoint
from albert.settings.fields import DATA, FEATURES, LARGEST_BATCH, LONGEST_SEQUENCE, MODEL, setting
from albert.settings.run_settings import IgnoredSettings

ENTRY_POINT = EntryPoint("albert.commands.embed")


class EmbedSettings(IgnoredSettings):
    """Where texts and model are, and what is written."""

    input_file: str = setting(
        "", 'Texts, a line each, or two with " ||| " between them. Required.', DATA, path=True
    )
    output_file: str = setting(
        "", "Embeddings of the texts, in the same order. Required.", DATA, path=True
    )
    output_format: str = setting(
        "json",
        "json: a line a text, with linex_index and features. npz: NumPy arrays, much smaller.",
        DATA,
        choices=("json", "npz"),
    )
    layers: str = setting("-1,-2,-3,-4", "Numbers of layers; -1 is the last. May be empty.", DATA)
    pooled: bool = setting(False, "Write the pooled output, a vector a text, too.", DATA)
    init_checkpoint: str = setting(
        "",
        "A folder that --export_dir or --output_dir has made, or a checkpoint. Required.",
        MODEL,
        path=True,
    )
    albert_config_file: str | None = setting(
        None,
        "JSON of the model's sizes; not needed with such a folder.",
        MODEL,
        path=True,
        aliases=("bert_config_file",),
    )
    spm_model_file: str | None = setting(None, "SentencePiece model, likewise.", MODEL, path=True)
    vocab_file: str | None = setting(None, "WordPiece vocabulary, likewise.", MODEL, path=True)
    do_lower_case: bool = setting(True, "Lower-case the text, likewise.", MODEL)
    max_seq_length: int = setting(
        128, "Tokens of a text; the rest is cut off.", FEATURES, lower=5, upper=LONGEST_SEQUENCE
    )
    batch_size: int = setting(
        32, "Texts that go through the model together.", FEATURES, lower=1, upper=LARGEST_BATCH
    )


def parse(argv: list[str]) -> EmbedSettings:
    """Returns the settings of a command line."""
    command_line.parse(argv, __doc__, EmbedSettings)
    return EmbedSettings.from_flags()
