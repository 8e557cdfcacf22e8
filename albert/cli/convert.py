"""Converts a model's weights between TensorFlow checkpoints and folders of `transformers`.

  albert convert FROM TO [flags]

FROM is a checkpoint, a folder with one, the --output_dir of a run, of which the best checkpoint is
taken, or a folder of transformers with config.json and model.safetensors. TO is a new folder, of
transformers if FROM is of TensorFlow, and the other way round. Optimizers' variables are left out.
"""

from __future__ import annotations

from albert.cli import command_line
from albert.cli.main import EntryPoint
from albert.settings.fields import Settings, setting

ENTRY_POINT = EntryPoint("albert.commands.convert")


class ConvertSettings(Settings):
    """What the files do not say; all of it is for a folder of transformers to be made."""

    albert_config_file: str | None = setting(
        None,
        "Configuration of the model. Default: the run's, or the one beside the checkpoint.",
        aliases=("bert_config_file",),
    )
    spm_model_file: str | None = setting(
        None,
        "SentencePiece model, to be copied as spiece.model. Default: the tokenizer of the run.",
    )
    vocab_file: str | None = setting(
        None, "WordPiece vocabulary, likewise, to be copied as vocab.txt."
    )
    do_lower_case: bool | None = setting(
        None, "Whether text is lower-cased. Default: as in the run, or else true."
    )
    multiple_choice: bool = setting(
        False,
        "A single score is one of an option, as in RACE, and no number. Runs say so themselves.",
    )


def parse(argv: list[str]) -> tuple[ConvertSettings, list[str]]:
    """Returns the settings and the arguments of a command line."""
    arguments = command_line.parse(argv, __doc__, ConvertSettings, arguments=True)
    return ConvertSettings.from_flags(), arguments
