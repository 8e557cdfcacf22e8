"""The search that this project does without, for comparison: a plain alignment of tokens and text.

The reference finds which character of the paragraph each character of its tokens is by a longest
common subsequence, computed in Python within a band around the diagonal, for every question. This
is that algorithm in its plainest form.
"""

from __future__ import annotations

import unicodedata

import numpy as np

from tokenization import FullTokenizer, encode_ids, encode_pieces, preprocess_text

_UP, _LEFT, _MATCH = 0, 1, 2


def align(text: str, token_text: str, lower: bool) -> list[int | None]:
    """For each character of `token_text` its place in `text`, or None."""
    rows, columns = len(text), len(token_text)
    band = abs(rows - columns) + 5
    lengths = np.zeros((max(rows, 1024), max(columns, 1024)), np.float32)
    moves = {}
    for i in range(rows):
        for j in range(max(0, i - band), min(columns, i + band)):
            best, move = (lengths[i - 1, j] if i else 0), _UP
            if j and lengths[i, j - 1] > best:
                best, move = lengths[i, j - 1], _LEFT
            diagonal = lengths[i - 1, j - 1] if i and j else 0
            # As in the reference, the character is prepared again for every cell.
            if prepare(text[i], lower) == token_text[j] and diagonal + 1 > best:
                best, move = diagonal + 1, _MATCH
            lengths[i, j], moves[i, j] = best, move
    return _trace(moves, rows, columns)


def prepare(char: str, lower: bool) -> str:
    """What `preprocess_text` makes of a character, step by step."""
    decomposed = unicodedata.normalize("NFKD", char)
    kept = "".join([c for c in decomposed if not unicodedata.combining(c)])
    return kept.lower() if lower else kept


def _trace(moves: dict, rows: int, columns: int) -> list[int | None]:
    places = [None] * columns
    i, j = rows - 1, columns - 1
    while (i, j) in moves:
        move = moves[i, j]
        if move == _MATCH:
            places[j] = i
        i, j = i - (move != _LEFT), j - (move != _UP)
    return places


def convert(question: str, paragraph: str, tokenizer: FullTokenizer) -> list[int | None]:
    """The part of the reference's conversion that costs the time, for one example."""
    encode_ids(tokenizer.sp_model, preprocess_text(question, lower=True))
    pieces = encode_pieces(tokenizer.sp_model, preprocess_text(paragraph, lower=True))
    return align(paragraph, "".join(pieces).replace("▁", " "), lower=True)
