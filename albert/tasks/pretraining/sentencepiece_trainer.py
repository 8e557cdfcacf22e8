"""Training of SentencePiece models with ALBERT's special pieces and ids."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import sentencepiece as spm

from albert.core.errors import UserError
from albert.core.text import first_line
from albert.tasks.pretraining.text import LONGEST_REST, plan_blocks, read_lines
from albert.tokenization import preprocess_text

# <pad> is 0, <unk> is 1, and the control symbols follow, as in the published models
# (https://github.com/google-research/albert, "SentencePiece").
LAYOUT: dict[str, Any] = {
    **{"model_type": "unigram", "pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1},
    "control_symbols": ["[CLS]", "[SEP]", "[MASK]"],
}
_USER_DEFINED_SYMBOLS = ["(", ")", '"', "-", ".", "–", "£", "€"]
_READ_BYTES = 1 << 20
# Options of the trainer that affect the model: another number of threads changes the order of sums.
TRAINING: dict[str, Any] = {
    "character_coverage": 0.99995,
    "input_sentence_size": 10_000_000,
    "num_threads": 16,
}


def train_model(
    files: Sequence[str],
    vocab_size: int,
    do_lower_case: bool = True,
    keep_accents: bool = False,
    num_threads: int = TRAINING["num_threads"],
) -> bytes:
    """Trains a unigram model on the text in files and returns it in serialized form.

    Of more than 10 million sentences, the trainer draws a random sample, which is the same
    every time. Raises a `UserError` if the text is invalid, or does not suit the number of pieces.
    """
    model, failed = io.BytesIO(), list[UserError]()
    try:
        spm.SentencePieceTrainer.train(
            sentence_iterator=_sentences(files, do_lower_case, keep_accents, failed),
            model_writer=model,
            vocab_size=vocab_size,
            user_defined_symbols=_USER_DEFINED_SYMBOLS,
            shuffle_input_sentence=True,
            # The trainer would skip longer sentences; this limit is longer than any line.
            max_sentence_length=4 * LONGEST_REST,
            minloglevel=1,
            **{**LAYOUT, **TRAINING, "num_threads": num_threads},
        )
    except RuntimeError as e:
        # Without its place in the trainer's code. Only if there is no text, there is no reason.
        reason = first_line(e).rpartition("]")[2].strip() or "no text to train on"
        raise (failed[0] if failed else UserError(f"{', '.join(files)}: {reason}")) from e
    return model.getvalue()


def _sentences(
    files: Sequence[str], lower: bool, keep_accents: bool, failed: list[UserError]
) -> Iterator[str]:
    """Yields lines that are not blank; also puts an error, which the trainer hides, in `failed`."""
    try:
        for block in plan_blocks(files, _READ_BYTES):
            for span in block:
                for line in read_lines(span):
                    if text := preprocess_text(line, True, lower, keep_accents):
                        yield text
    except UserError as e:
        failed.append(e)
        raise


def write_vocab(model: bytes, path: str) -> int:
    """Writes a model's pieces and scores, one per line; returns their number."""
    processor = spm.SentencePieceProcessor(model_proto=model)
    with open(path, "w", encoding="utf-8") as file:
        for i in range(processor.get_piece_size()):
            file.write(f"{processor.id_to_piece(i)}\t{processor.get_score(i):g}\n")
    return processor.get_piece_size()
