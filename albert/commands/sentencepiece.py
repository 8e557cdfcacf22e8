"""Trains a SentencePiece model with ALBERT's special pieces and ids on text files."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

from albert.cli.sentencepiece import SentencePieceSettings
from albert.core.errors import UserError
from albert.core.files import sha256_of
from albert.data.cached_file import CachedFile
from albert.tasks.pretraining.sentencepiece_trainer import PieceOptions, train_model, write_vocab
from albert.tasks.pretraining.text import matching_files


def main(settings: SentencePieceSettings) -> None:
    """Trains the model and writes it, unless it already exists."""
    settings.require("input_file", "model_prefix")
    files = matching_files(settings.input_file, "input_file")
    options = PieceOptions(*(getattr(settings, name) for name in PieceOptions._fields))
    source = {"input_sha256": list(map(sha256_of, files)), **options._asdict()}
    model_path, vocab_path = settings.model_prefix + ".model", settings.model_prefix + ".vocab"
    derived = CachedFile(model_path, source, [vocab_path])
    with derived.lock():
        if derived.reusable() is not None:
            return
        if derived.is_foreign():
            raise UserError(
                f"{model_path} exists and was not written by this program; pass another "
                "--model_prefix, or remove the file"
            )
        model = train_model(files, options)
        with derived.building() as (names, summary):
            with open(names[0], "wb") as file:
                file.write(model)
            summary["pieces"] = write_vocab(model, names[1])
    tf.logging.info("Wrote %s with %d pieces", model_path, summary["pieces"])
