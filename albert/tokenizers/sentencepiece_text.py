"""Preparation of text for ALBERT's SentencePiece models, and the digit-comma rule."""

from __future__ import annotations

import unicodedata

import sentencepiece as spm

SPIECE_UNDERLINE = "▁".encode()
_UNDERLINE = "▁"
# A lone surrogate cannot be encoded in UTF-8, but JSON can contain one.
_REPLACEMENT = "\ufffd"


def preprocess_text(
    inputs: str, remove_space: bool = True, lower: bool = False, keep_accents: bool = False
) -> str:
    """Returns a text in the form on which the SentencePiece models were trained.

    Replaces runs of white space with one space (`remove_space`), replaces characters with their
    NFKD form without combining marks (unless `keep_accents`), and lower-cases letters (`lower`).
    """
    text = " ".join(inputs.split()) if remove_space else inputs
    if not text.isascii():
        text = "".join(map(keep_character if keep_accents else strip_character, text))
    return text.lower() if lower else text


def strip_character(char: str) -> str:
    """Returns a character's NFKD form without combining marks: "é" to "e", "½" to "1⁄2".

    Without marks, the NFKD form of a text is the concatenation of its characters' NFKD forms.
    """
    kept = keep_character(char)
    return "".join(c for c in unicodedata.normalize("NFKD", kept) if not unicodedata.combining(c))


def keep_character(char: str) -> str:
    """Returns a character, or a replacement for one that SentencePiece cannot read."""
    return _REPLACEMENT if 0xD800 <= ord(char) <= 0xDFFF else char


def encode_pieces(
    sp_model: spm.SentencePieceProcessor,
    text: str,
    return_unicode: bool = True,
    sample: bool = False,
) -> list[str]:
    """Returns the pieces of a text that `preprocess_text` returned, always as strings.

    A piece that ends in a digit and a comma is split before the comma. `sample`: whether to sample
    a segmentation (n-best 64, alpha 0.1) instead of using the best one.
    """
    if sample:
        pieces = sp_model.sample_encode_as_pieces(text, 64, 0.1)
    else:
        pieces = sp_model.encode(text, out_type=str)
    if not any(map(ends_in_digit_comma, pieces)):
        return pieces
    result = []
    for piece in pieces:
        if ends_in_digit_comma(piece):
            result += sp_model.encode(piece[:-1].replace(_UNDERLINE, ""), out_type=str)
            result.append(",")
        else:
            result.append(piece)
    return result


def ends_in_digit_comma(piece: str) -> bool:
    """Returns whether the comma rule of `encode_pieces` applies to a piece, such as "▁1995,"."""
    return piece[-1:] == "," and piece[-2:-1].isdigit()


def encode_ids(sp_model: spm.SentencePieceProcessor, text: str, sample: bool = False) -> list[int]:
    """Returns the ids of the pieces that `encode_pieces` returns."""
    return sp_model.piece_to_id(encode_pieces(sp_model, text, sample=sample))
