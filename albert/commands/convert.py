"""Converts a model's weights between TensorFlow checkpoints and folders of `transformers`."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from albert.checkpoints.transformers_folder import is_transformers_folder
from albert.convert.convert import Options, from_transformers, to_transformers
from albert.core.errors import FlagError
from albert.settings.flags import FLAGS


def main(paths: list[str]) -> None:
    """Converts in the direction that FROM tells."""
    if len(paths) != 2 or not all(paths):
        raise FlagError("two paths are needed: albert convert FROM TO [FLAGS]")
    path, target = paths
    if is_transformers_folder(path):
        tf.logging.info("%s: a TensorFlow checkpoint", from_transformers(path, target))
        return
    names = "albert_config_file", "spm_model_file", "vocab_file", "do_lower_case"
    options = Options(*(getattr(FLAGS, name) for name in names), FLAGS.multiple_choice)
    tf.logging.info("%s: %s of transformers", target, to_transformers(path, target, options))
