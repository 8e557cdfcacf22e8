"""Which characters of a text each SentencePiece token stands for.

Both steps between a text and its tokens work from left to right and change single characters or
runs of white space: `tokenization.preprocess_text`, and the normalizer inside the SentencePiece
model, which reports the offsets of what it wrote. Carrying the positions along gives the map in
linear time; no search is needed.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import sentencepiece as spm

import tokenization


class Tokens(NamedTuple):
    """The tokens of a text, in order.

    Attributes:
      pieces: the tokens' texts.
      ids: int32, their ids.
      starts: int32, first character of the text each token stands for; for the white space before
        a word that is the white space, and its first character where there is a run.
      ends: int32, last character; `starts - 1` where a token stands for no character, unless
        the ends would then run backwards.
    """

    pieces: list[str]
    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def span_of(self, first: int, last: int) -> tuple[int, int]:
        """The first and last token that cover characters `first` to `last`, both included."""
        start = int(np.searchsorted(self.ends, first))
        end = int(np.searchsorted(self.starts, last, side="right")) - 1
        start = min(start, len(self.ids) - 1)
        return start, max(end, start)


class Aligner:
    """Tokenizes texts with one SentencePiece model and remembers where the tokens come from."""

    def __init__(self, sp_model: spm.SentencePieceProcessor, do_lower_case: bool):
        self._model = sp_model
        self._lower = do_lower_case
        self._cut_comma_piece = functools.lru_cache(maxsize=None)(self._cut_comma_piece)

    def tokenize(self, text: str) -> Tokens:
        """Tokens equal to `encode_pieces(preprocess_text(text))`, with their characters."""
        prepared, origin = _prepare(text, self._lower)
        pieces = self._model.encode(prepared, out_type=str)
        normalized, offsets = self._model.normalize(prepared, with_offsets=True)
        lengths = list(map(len, pieces))
        if sum(lengths) != len(normalized):
            raise ValueError("the SentencePiece model's pieces do not spell its normalized text")
        # Where in `text` each normalized character begins, and the first place after it.
        begins = origin[np.asarray(offsets, np.int64)]
        after = _next_larger(begins)
        bounds = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        if any(map(tokenization.ends_in_digit_comma, pieces)):
            return self._with_comma_rule(pieces, bounds, begins, after)
        ids = np.asarray(self._model.piece_to_id(pieces), np.int32)
        return Tokens(pieces, ids, *_spans(begins, after, bounds[:-1], bounds[1:]))

    def _with_comma_rule(
        self, pieces: list[str], bounds: np.ndarray, begins: np.ndarray, after: np.ndarray
    ) -> Tokens:
        """Tokens after the rule of `tokenization.encode_pieces` for pieces such as "▁1995,"."""
        new_pieces, firsts, lasts = [], [], []
        for piece, first, last in zip(pieces, bounds[:-1], bounds[1:], strict=True):
            if tokenization.ends_in_digit_comma(piece):
                parts = self._cut_comma_piece(piece)
            else:
                parts = ((piece, 0, last - first),)
            for part, begin, end in parts:
                new_pieces.append(part)
                firsts.append(first + begin)
                lasts.append(first + end)
        ids = np.asarray(self._model.piece_to_id(new_pieces), np.int32)
        return Tokens(new_pieces, ids, *_spans(begins, after, np.array(firsts), np.array(lasts)))

    def _cut_comma_piece(self, piece: str) -> tuple[tuple[str, int, int], ...]:
        """The parts of a piece that ends in a digit and a comma, with their places in it."""
        kept = [i for i, char in enumerate(piece[:-1]) if char != "▁"]
        number = "".join(piece[i] for i in kept)
        _, offsets = self._model.normalize(number, with_offsets=True)
        # The white space put before the number is the piece's own where it has one, else nothing.
        places = [*kept, len(piece) - 1]
        parts, position = [], 0
        for part in self._model.encode(number, out_type=str):
            begin, end = offsets[position], offsets[position + len(part)]
            first = 0 if position == 0 else places[begin]
            parts.append((part, first, places[end] if end else kept[0]))
            position += len(part)
        return (*parts, (",", len(piece) - 1, len(piece)))


def _spans(
    begins: np.ndarray, after: np.ndarray, firsts: np.ndarray, lasts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Character spans of tokens that are normalized characters `firsts` to before `lasts`."""
    starts = begins[firsts]
    ends = np.where(lasts > firsts, after[np.maximum(lasts - 1, 0)], starts) - 1
    return starts.astype(np.int32), np.maximum.accumulate(ends).astype(np.int32)


def _next_larger(begins: np.ndarray) -> np.ndarray:
    """For each of some non-decreasing numbers the next that is larger (the last: itself)."""
    return begins[np.minimum(np.searchsorted(begins, begins, side="right"), len(begins) - 1)]


def _prepare(text: str, lower: bool) -> tuple[str, np.ndarray]:
    """`preprocess_text(text)` and, for each of its characters and its end, the place in `text`."""
    if text.isascii():
        prepared = " ".join(text.split())
        if prepared == text:
            return (text.lower() if lower else text), np.arange(len(text) + 1)
    chars = list(text)
    space = np.fromiter(map(str.isspace, chars), bool, len(chars))
    # One space for a run of white space, where the run begins; none at either end of the text.
    keep = ~space
    keep[1:] |= ~space[:-1]
    words = np.flatnonzero(~space)
    first, end = (words[0], words[-1] + 1) if len(words) else (0, 0)
    keep[:first] = keep[end:] = False
    kept = np.flatnonzero(keep)
    parts = [" " if space[i] else _STRIPPED[chars[i]] for i in kept]
    origin = np.repeat(kept, np.fromiter(map(len, parts), np.int64, len(parts)))
    prepared = "".join(parts)
    # Lower-casing the stripped text changes no length: the one letter that would grow, U+0130,
    # has lost its dot. It is done at once because the final sigma depends on its neighbours.
    return (prepared.lower() if lower else prepared), np.append(origin, end)


class _Stripped(dict):
    """`tokenization.strip_character` with its results remembered."""

    def __missing__(self, char: str) -> str:
        self[char] = stripped = tokenization.strip_character(char)
        return stripped


_STRIPPED = _Stripped()
