"""Trains a SentencePiece model with ALBERT's special pieces and ids on text files.

  python train_sentencepiece.py --input_file='text/*.txt' --model_prefix=spm --vocab_size=30000

Writes spm.model and spm.vocab. The text is prepared as the tokenizer prepares it. The same command
does nothing if the model is there and was made from the same text.
"""

from __future__ import annotations

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.

# isort: split
import tensorflow.compat.v1 as tf
from absl import flags

from albert.cli import app
from albert.core.errors import UserError
from albert.core.files import sha256_of
from albert.data.cached_file import CachedFile
from albert.settings.flags import FLAGS, Settings
from albert.tasks.pretraining.sentencepiece_trainer import PieceOptions, train_model, write_vocab
from albert.tasks.pretraining.text import matching_files


def define_flags() -> None:
    """Defines what is trained on, and how large the model is."""
    flags.DEFINE_string(
        "input_file", None, "Text files, a sentence a line: names or globs, with commas between."
    )
    flags.DEFINE_string("model_prefix", None, "Write PREFIX.model and PREFIX.vocab. Required.")
    flags.DEFINE_integer("vocab_size", 30000, "Number of pieces.", lower_bound=1)
    flags.DEFINE_bool("do_lower_case", True, "Lower-case the text; true for all published ALBERTs.")
    flags.DEFINE_float(
        "character_coverage",
        0.99995,
        "Part of the text's characters that are to have a piece.",
        lower_bound=0.98,
        upper_bound=1.0,
    )
    flags.DEFINE_integer(
        "input_sentence_size",
        10_000_000,
        "Sentences to train on, which are drawn at random if there are more; bounds the memory.",
        lower_bound=101,
    )
    flags.DEFINE_integer("num_threads", 16, "Threads; the model depends on it.", lower_bound=1)


define_flags()


def main(argv: list[str]) -> None:
    """Runs the whole job: flags, reuse, training, files."""
    del argv
    Settings().require("input_file", "model_prefix")
    files = matching_files(FLAGS.input_file, "input_file")
    options = PieceOptions(*(getattr(FLAGS, name) for name in PieceOptions._fields))
    source = {"input_sha256": list(map(sha256_of, files)), **options._asdict()}
    model_path, vocab_path = FLAGS.model_prefix + ".model", FLAGS.model_prefix + ".vocab"
    derived = CachedFile(model_path, source, [vocab_path])
    with derived.lock():
        if derived.reusable() is not None:
            return
        if derived.made_elsewhere():
            raise UserError(
                f"{model_path} exists and was not written by this program; it is not replaced: "
                "give another --model_prefix or remove it"
            )
        model = train_model(files, options)
        with derived.building() as (names, summary):
            with open(names[0], "wb") as file:
                file.write(model)
            summary["pieces"] = write_vocab(model, names[1])
    tf.logging.info("%s: %d pieces", model_path, summary["pieces"])


if __name__ == "__main__":
    app.run(main)
