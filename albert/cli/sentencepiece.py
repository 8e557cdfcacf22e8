"""Trains a SentencePiece model with ALBERT's special pieces and ids on text files.

  albert sentencepiece --input_file='text/*.txt' --model_prefix=spm --vocab_size=30000

Writes spm.model and spm.vocab. The text is normalized in the same way as by the tokenizer. The
command does nothing if the model already exists and was trained on the same text.
"""

from __future__ import annotations

from albert.core.errors import UserError
from albert.core.files import sha256_of
from albert.settings.fields import Settings, setting


class SentencePieceSettings(Settings):
    """The text to train on, and the size of the model."""

    input_file: str = setting(
        "", "Text files with one sentence per line: names or globs, separated by commas. Required."
    )
    model_prefix: str = setting(
        "", "PREFIX of the output, PREFIX.model and PREFIX.vocab. Required."
    )
    vocab_size: int = setting(30000, "Number of pieces in the vocabulary.", lower=1)
    do_lower_case: bool = setting(True, "Lowercase the text, as for all published ALBERT models.")
    keep_accents: bool = setting(
        False, "Keep accents; a training with the model then needs --keep_accents, too."
    )


SETTINGS = SentencePieceSettings


def main(settings: SentencePieceSettings) -> None:
    """Trains the model and writes it, unless it already exists."""
    import tensorflow.compat.v1 as tf

    from albert.records.cached_file import CachedFile
    from albert.tasks.pretraining.sentencepiece_trainer import TRAINING, train_model, write_vocab
    from albert.tasks.pretraining.text import matching_files

    settings.require("input_file", "model_prefix")
    files = matching_files(settings.input_file, "input_file")
    flags = "vocab_size", "do_lower_case", "keep_accents"
    options = {name: getattr(settings, name) for name in flags}
    source = {"input_sha256": list(map(sha256_of, files)), **TRAINING, **options}
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
        model = train_model(files, **options)
        with derived.building() as (names, summary):
            with open(names[0], "wb") as file:
                file.write(model)
            summary["pieces"] = write_vocab(model, names[1])
    tf.logging.info("Wrote %s with %d pieces", model_path, summary["pieces"])
