"""Converts a model's weights: TensorFlow checkpoints, Hugging Face folders, ONNX.

  albert convert FROM TO [--to=onnx] [flags]

FROM is a TensorFlow checkpoint, a folder with one, or the --output_dir of a run, whose best
checkpoint is used; or a folder of Hugging Face's transformers with config.json and
model.safetensors. TO is a new folder in the other format. With --to=onnx, FROM is a checkpoint, and
TO gets a file model.onnx. The optimizer's variables are omitted.
"""

from __future__ import annotations

from albert.convert.settings import ConvertSettings
from albert.core.errors import FlagError, optional

SETTINGS, TAKES_ARGUMENTS = ConvertSettings, True


def main(request: tuple[ConvertSettings, list[str]]) -> None:
    """Converts FROM; its format determines the direction, unless --to does."""
    import tensorflow.compat.v1 as tf

    from albert.checkpoints.transformers_folder import is_transformers_folder
    from albert.convert.convert import from_transformers, to_transformers

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
    if settings.to == "onnx":
        with optional("onnx==1.18.0"):
            from albert.convert.onnx_graph import to_onnx

        outputs = ", ".join(to_onnx(path, target, settings))
        tf.logging.info("%s: a model with the outputs %s", target, outputs)
        return
    tf.logging.info("%s: %s of transformers", target, to_transformers(path, target, settings))
