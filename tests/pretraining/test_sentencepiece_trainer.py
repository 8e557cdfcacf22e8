"""SentencePiece models: special pieces, the text they are made of, and what goes wrong."""

from __future__ import annotations

import pytest
import sentencepiece as spm

from pretraining.sentencepiece_trainer import PieceOptions, train_model
from runtime.errors import FlagError, UserError

SPECIAL = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "(", ")", '"', "-", ".", "–", "£", "€"]


def test_special_pieces_have_the_ids_of_the_published_models(tmp_path):
    lines = [f"The {w} House (no. {k}) – “{w}”" for k, w in enumerate(["old", "café"] * 60)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    text = str(tmp_path / "text.txt")
    content = train_model([text], PieceOptions(45, num_threads=2))
    model = spm.SentencePieceProcessor(model_proto=content)
    pieces = [model.id_to_piece(i) for i in range(model.get_piece_size())]
    assert pieces[: len(SPECIAL)] == SPECIAL and len(pieces) == 45
    # Control symbols are no text; of accents and capitals the model knows nothing.
    assert [model.is_control(i) for i in range(5)] == [True, False, True, True, True]
    assert 4 not in model.encode("[MASK]")
    assert not set("éTH") & set("".join(pieces[5:]))
    assert train_model([text], PieceOptions(45, num_threads=2)) == content


@pytest.mark.parametrize(
    ("content", "size", "error", "words"),
    [
        (b"one\nzw\xf6lf\n", 5000, UserError, r"text\.txt, line 2: .*not UTF-8"),
        (b"\n \n", 5000, UserError, r"text\.txt: no text"),
        (b"", 5000, UserError, r"text\.txt is empty"),
        (b"ab ab\n" * 50, 5000, FlagError, "--vocab_size 5000 is more than the"),
        (b"ab ab\n" * 50, 14, FlagError, "--vocab_size 14 is less than"),
    ],
)
def test_what_goes_wrong(tmp_path, content, size, error, words):
    (tmp_path / "text.txt").write_bytes(content)
    with pytest.raises(error, match=words):
        train_model([str(tmp_path / "text.txt")], PieceOptions(size))
