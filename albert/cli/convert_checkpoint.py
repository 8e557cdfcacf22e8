"""Converts a model's weights between TensorFlow checkpoints and folders of `transformers`.

  python convert_checkpoint.py FROM TO [flags]

FROM is a checkpoint, a folder with one, the --output_dir of a run, of which the best checkpoint is
taken, or a folder of transformers with config.json and model.safetensors. TO is a new folder, of
transformers if FROM is of TensorFlow, and the other way round. Optimizers' variables are left out.
"""

from __future__ import annotations

import sys

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.

# isort: split
import tensorflow.compat.v1 as tf
from absl import flags

from albert.checkpoints.transformers_folder import is_transformers_folder
from albert.cli import app
from albert.convert.convert import Options, from_transformers, to_transformers
from albert.core.errors import FlagError
from albert.settings.flags import FLAGS


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


def take_paths() -> list[str]:
    """Takes the first words off the command line that are no flags, two at most."""
    words = sys.argv[1:3]
    paths = words[: next((n for n, word in enumerate(words) if word.startswith("-")), len(words))]
    del sys.argv[1 : 1 + len(paths)]
    return paths


def main(paths: list[str]) -> None:
    """Converts in the direction that FROM tells."""
    if len(paths) != 2 or not all(paths):
        raise FlagError("two paths are needed: convert_checkpoint.py FROM TO [flags]")
    path, target = paths
    if is_transformers_folder(path):
        tf.logging.info("%s: a TensorFlow checkpoint", from_transformers(path, target))
        return
    names = "albert_config_file", "spm_model_file", "vocab_file", "do_lower_case"
    options = Options(*(getattr(FLAGS, name) for name in names), FLAGS.multiple_choice)
    tf.logging.info("%s: %s of transformers", target, to_transformers(path, target, options))


if __name__ == "__main__":
    define_flags()
    given = take_paths()
    app.run(lambda argv: main(given))
