r"""Writes embeddings of texts: the encoder's output for each token, or its pooled output.

  albert embed --input_file=texts.txt --output_file=embeddings.jsonl \
    --init_checkpoint=MODEL --layers=-1,-2,-3,-4

Each line of the input has one text, or two texts separated by " ||| ". MODEL is an export or the
--output_dir of a run. It can also be a checkpoint: then add --albert_config_file and
--spm_model_file, or --bert_config_file and --vocab_file. The flags and the JSON are those of
Google's extract_features.py.
"""

from __future__ import annotations

from albert.cli import command_line
from albert.cli.main import EntryPoint
from albert.settings.fields import DATA, FEATURES, LARGEST_BATCH, LONGEST_SEQUENCE, MODEL, setting
from albert.settings.run_settings import IgnoredSettings

ENTRY_POINT = EntryPoint("albert.commands.embed")


class EmbedSettings(IgnoredSettings):
    """The texts, the model and the output of `albert embed`."""

    input_file: str = setting(
        "",
        'Text file with one text per line, or two texts separated by " ||| ". Required.',
        DATA,
        path=True,
    )
    output_file: str = setting(
        "", "File for the embeddings, in the order of the texts. Required.", DATA, path=True
    )
    output_format: str = setting(
        "json",
        "Format of the output: json has one line per text, with linex_index and features; npz has "
        "NumPy arrays and is much smaller.",
        DATA,
        choices=("json", "npz"),
    )
    layers: str = setting(
        "-1,-2,-3,-4",
        "Layers to write, separated by commas; -1 is the last one. May be empty with --pooled or "
        "--pooling.",
        DATA,
    )
    pooled: bool = setting(False, "Also write the pooled output, one vector per text.", DATA)
    pooling: str = setting(
        "none",
        "Also write `sentence`, one vector per text from the last layer: the mean over all tokens, "
        "including [CLS] and [SEP], or the state of [CLS].",
        DATA,
        choices=("none", "mean", "cls"),
    )
    normalize: bool = setting(
        False, "Divide the vectors of --pooling by their Euclidean norms.", DATA
    )
    init_checkpoint: str = setting(
        "",
        "Model: an export, the --output_dir of a run, or a checkpoint. Required.",
        MODEL,
        path=True,
    )
    albert_config_file: str | None = setting(
        None,
        "JSON file with the model's sizes. Needed only if --init_checkpoint is a checkpoint.",
        MODEL,
        path=True,
        aliases=("bert_config_file",),
    )
    spm_model_file: str | None = setting(
        None,
        "SentencePiece model. Needed only if --init_checkpoint is a checkpoint.",
        MODEL,
        path=True,
    )
    vocab_file: str | None = setting(
        None,
        "WordPiece vocabulary. Needed only if --init_checkpoint is a checkpoint.",
        MODEL,
        path=True,
    )
    do_lower_case: bool = setting(
        True, "Lowercase the text. Allowed only if --init_checkpoint is a checkpoint.", MODEL
    )
    max_seq_length: int = setting(
        128,
        "Longest text, in tokens; longer texts are truncated.",
        FEATURES,
        lower=5,
        upper=LONGEST_SEQUENCE,
    )
    batch_size: int = setting(
        32, "Number of texts in a batch.", FEATURES, lower=1, upper=LARGEST_BATCH
    )


def parse(argv: list[str]) -> EmbedSettings:
    """Parses a command line and returns its settings."""
    command_line.parse(argv, __doc__, EmbedSettings)
    return EmbedSettings.from_flags()
