"""Converts a model's weights: TensorFlow checkpoints, Hugging Face folders, ONNX.

  albert convert FROM TO [--to=onnx] [flags]

FROM is a TensorFlow checkpoint, a folder with one, or the --output_dir of a run, whose best
checkpoint is used; or a folder of Hugging Face's transformers with config.json and
model.safetensors. TO is a new folder in the other format. With --to=onnx, FROM is a checkpoint, and
TO gets a file model.onnx. The optimizer's variables are omitted.
"""

from __future__ import annotations

from albert.cli import command_line
from albert.core.errors import FlagError
from albert.settings.fields import OWN, redefined, setting
from albert.settings.text_settings import NormalizationSettings


class ConvertSettings(NormalizationSettings):
    """The format, and information that the files lack; a folder of transformers needs none."""

    to: str = setting(
        "",
        "Format of TO. Default: transformers for a checkpoint, and a checkpoint for a folder of "
        "transformers.",
        choices=("", "transformers", "onnx"),
    )
    albert_config_file: str | None = setting(
        None,
        "Configuration of the model. Default: the run's, or the one in the checkpoint's folder.",
        aliases=("bert_config_file",),
    )
    spm_model_file: str | None = setting(
        None, "SentencePiece model, which is copied as spiece.model. Default: the run's tokenizer."
    )
    vocab_file: str | None = setting(
        None, "WordPiece vocabulary, which is copied as vocab.txt. Default: the run's tokenizer."
    )
    do_lower_case: bool = redefined(NormalizationSettings, "do_lower_case", True, theme=OWN)
    multiple_choice: bool = setting(
        False,
        "Treat a head with one output as multiple choice, as in RACE, instead of regression. Not "
        "needed for a run, which records its task.",
    )


def parse(argv: list[str]) -> tuple[ConvertSettings, list[str]]:
    """Returns the settings and the arguments of a command line."""
    arguments = command_line.parse(argv, __doc__, ConvertSettings, arguments=True)
    return ConvertSettings.from_flags(), arguments


def main(request: tuple[ConvertSettings, list[str]]) -> None:
    """Converts FROM; its format determines the direction, unless --to does."""
    import tensorflow.compat.v1 as tf

    from albert.checkpoints.transformers_folder import is_transformers_folder
    from albert.convert.convert import (
        ConversionOptions,
        from_transformers,
        to_onnx,
        to_transformers,
    )

    settings, paths = request
    if len(paths) != 2 or not all(paths):
        raise FlagError("pass two paths: albert convert FROM TO [FLAGS]")
    path, target = paths
    if is_transformers_folder(path):
        if settings.to:
            raise FlagError(
                f"--to={settings.to} is for a checkpoint, and {path} is a folder of transformers; "
                "convert it to a checkpoint first"
            )
        tf.logging.info("%s: a TensorFlow checkpoint", from_transformers(path, target))
        return
    files = settings.albert_config_file, settings.spm_model_file, settings.vocab_file
    options = ConversionOptions(*files, settings.given_normalization(), settings.multiple_choice)
    if settings.to == "onnx":
        outputs = ", ".join(to_onnx(path, target, options))
        tf.logging.info("%s: a model with the outputs %s", target, outputs)
        return
    tf.logging.info("%s: %s of transformers", target, to_transformers(path, target, options))
