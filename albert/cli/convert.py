"""Converts a model's weights between TensorFlow checkpoints and folders of `transformers`.

  albert convert FROM TO [flags]

FROM is a checkpoint, a folder with one, the --output_dir of a run, of which the best checkpoint is
taken, or a folder of transformers with config.json and model.safetensors. TO is a new folder, of
transformers if FROM is of TensorFlow, and the other way round. Optimizers' variables are left out.
"""

from __future__ import annotations

from absl import flags

from albert.cli import command_line
from albert.cli.commands import Work

WORK = Work("albert.commands.convert")


def define_flags() -> None:
    """Defines what the files do not say; all of it is for a folder of transformers to be made."""
    flags.DEFINE_string(
        "albert_config_file",
        None,
        "Configuration of the model. Default: the run's, or the one beside the checkpoint.",
    )
    flags.DEFINE_alias("bert_config_file", "albert_config_file")
    flags.DEFINE_string(
        "spm_model_file",
        None,
        "SentencePiece model, to be copied as spiece.model. Default: the tokenizer of the run.",
    )
    flags.DEFINE_string(
        "vocab_file", None, "WordPiece vocabulary, likewise, to be copied as vocab.txt."
    )
    flags.DEFINE_bool(
        "do_lower_case", None, "Whether text is lower-cased. Default: as in the run, or else true."
    )
    flags.DEFINE_bool(
        "multiple_choice",
        False,
        "A single score is one of an option, as in RACE, and no number. Runs say so themselves.",
    )


def parse(argv: list[str]) -> list[str]:
    """Parses the flags; returns what is left of the command line."""
    define_flags()
    return command_line.parse(argv, __doc__, takes_arguments=True)[1:]
