"""A plain alignment of tokens and text, for comparison; this project needs no such search.

The reference maps each character of the tokens to a character of the paragraph by a longest common
subsequence, computed in Python within a band around the diagonal, for every question. This is that
algorithm in its plainest form.
"""

import unicodedata

import numpy as np

_UP, _LEFT, _MATCH = 0, 1, 2


def align(text: str, token_text: str) -> list[int | None]:
    """Returns, for each character of `token_text`, its position in `text`, or None.

    The table has, for every pair of prefixes of the texts, the length of their longest common
    subsequence: that without the last character of one of them, or one more if both end alike.
    """
    rows, columns = len(text), len(token_text)
    band = abs(rows - columns) + 5
    lengths = np.zeros((rows + 1, columns + 1), np.float32)
    moves = {}
    for i in range(rows):
        for j in range(max(0, i - band), min(columns, i + band)):
            lengths[i + 1, j + 1] = lengths[i, j + 1]
            moves[i, j] = _UP
            if lengths[i + 1, j] > lengths[i + 1, j + 1]:
                lengths[i + 1, j + 1] = lengths[i + 1, j]
                moves[i, j] = _LEFT
            # As in the reference, the character is normalized again for every cell.
            alike = _prepared(text[i]) == token_text[j]
            if alike and lengths[i, j] + 1 > lengths[i + 1, j + 1]:
                lengths[i + 1, j + 1] = lengths[i, j] + 1
                moves[i, j] = _MATCH
    positions: list[int | None] = [None] * columns
    i, j = rows - 1, columns - 1
    while (i, j) in moves:
        move = moves[i, j]
        if move == _MATCH:
            positions[j] = i
        i, j = i - (move != _LEFT), j - (move != _UP)
    return positions


def _prepared(char: str) -> str:
    """Returns the result of `preprocess_text` for a character, in lower case, step by step."""
    decomposed = unicodedata.normalize("NFKD", char)
    return "".join([c for c in decomposed if not unicodedata.combining(c)]).lower()
