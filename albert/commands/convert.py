"""Converts a model's weights between TensorFlow checkpoints, `transformers` and ONNX."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from albert.checkpoints.transformers_folder import is_transformers_folder
from albert.cli.convert import ConvertSettings
from albert.convert.convert import ConversionOptions, from_transformers, to_onnx, to_transformers
from albert.core.errors import FlagError


def main(request: tuple[ConvertSettings, list[str]]) -> None:
    """Converts FROM; its format determines the direction, unless --to does."""
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
    options = ConversionOptions(
        settings.albert_config_file,
        settings.spm_model_file,
        settings.vocab_file,
        settings.do_lower_case,
        settings.multiple_choice,
    )
    if settings.to == "onnx":
        outputs = ", ".join(to_onnx(path, target, options))
        tf.logging.info("%s: a model with the outputs %s", target, outputs)
        return
    tf.logging.info("%s: %s of transformers", target, to_transformers(path, target, options))
