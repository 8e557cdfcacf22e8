"""The alignment of tokens with the characters of a text.

All steps between a text and its tokens work from left to right and change single characters or
runs of white space: `preprocess_text`, and the normalizer inside the SentencePiece model, which
reports the offsets of what it wrote; for WordPiece the `BasicTokenizer`. Carrying the positions
along gives the map in linear time; no search is needed.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys

import numpy as np
import sentencepiece as spm

from albert.core.errors import UserError
from albert.tokenizers.sentencepiece_text import ends_in_digit_comma, strip_character
from albert.tokenizers.wordpiece_text import BasicTokenizer, WordpieceTokenizer

# But for the space.
_PRINTABLE = [chr(code) for code in range(33, 127)]
_REMEMBERED_WORDS = 1 << 16


@dataclasses.dataclass(frozen=True, eq=False)
class Tokens:
    """The tokens of a text, in order.

    Attributes:
      ids: int32, their ids.
      starts: int32, first character of the text each token stands for; for the white space before
        a word that is the white space, and its first character where there is a run.
      ends: int32, last character; `starts - 1` where a token stands for no character, unless
        the ends would then run backwards.
      first_word: number of the token that the first word begins with: 1 where the white space that
        is put before it is a token of its own, which has the word's first character too.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    first_word: int

    def span_of(self, first: int, last: int) -> tuple[int, int]:
        """Returns the first and last token that cover characters `first` to `last`, both included.

        A span begins at a word, not at the white space before the text, as the reference's do.
        """
        start = max(int(self.ends.searchsorted(first)), self.first_word)
        end = int(self.starts.searchsorted(last, side="right")) - 1
        start = min(start, len(self.ids) - 1)
        return start, max(end, start)


class Aligner:
    """Tokenizes texts with one SentencePiece model and says where the tokens come from."""

    def __init__(self, sp_model: spm.SentencePieceProcessor):
        self._model = sp_model
        # Facts of every piece, by its id.
        self._pieces = sp_model.id_to_piece(list(range(sp_model.get_piece_size())))
        self._lengths = np.fromiter(map(len, self._pieces), np.int64)
        # A character that no piece has, and pieces to which the comma rule applies.
        self._special = np.fromiter(map(ends_in_digit_comma, self._pieces), bool)
        self._special[sp_model.unk_id()] = True
        self._white_space = self._pieces.index("▁") if "▁" in self._pieces else None
        # Whether the model's normalizer leaves printable ASCII alone; only pairs are tried, as no
        # rule in use is about more of its characters.
        pairs = "".join(map("".join, itertools.product(_PRINTABLE, repeat=2)))
        self._keeps_plain_text = sp_model.normalize(pairs) == f"▁{pairs}"
        self._parts_of_comma_piece = functools.cache(self._cut_comma_piece)

    def tokenize(self, text: str, lower: bool) -> Tokens:
        """Returns tokens as `encode_pieces(preprocess_text(text, lower=lower))`, with their places.

        Raises:
          UserError: the model's pieces do not spell its text.
        """
        prepared, origin = _prepare(text, lower)
        encoded = self._model.encode(prepared)
        ids = np.array(encoded, np.int32)
        if self._special[ids].any():
            return self._tokenize_by_pieces(prepared, origin)
        lasts = self._lengths[ids].cumsum()
        if self._keeps_plain_text and len(ids) and lasts[-1] == len(text) + 1 and _is_plain(text):
            begins = _begins_of_kept_text(origin)
        else:
            spelled = "".join(map(self._pieces.__getitem__, encoded))
            begins = self._begins(prepared, origin, spelled)
        return self._tokens(ids, begins, lasts - self._lengths[ids], lasts)

    def _tokenize_by_pieces(self, prepared: str, origin: np.ndarray) -> Tokens:
        """Returns the same for any text, with the rule of `encode_pieces` for "▁1995,"."""
        pieces = self._model.encode(prepared, out_type=str)
        begins = self._begins(prepared, origin, "".join(pieces))
        bounds = itertools.accumulate(map(len, pieces), initial=0)
        new_pieces, firsts, lasts = [], [], []
        for piece, (first, last) in zip(pieces, itertools.pairwise(bounds), strict=True):
            if ends_in_digit_comma(piece):
                parts = self._parts_of_comma_piece(piece)
            else:
                parts = ((piece, 0, last - first),)
            for part, begin, end in parts:
                new_pieces.append(part)
                firsts.append(first + begin)
                lasts.append(first + end)
        ids = np.asarray(self._model.piece_to_id(new_pieces), np.int32)
        return self._tokens(ids, begins, np.array(firsts), np.array(lasts))

    def _tokens(
        self, ids: np.ndarray, begins: np.ndarray, firsts: np.ndarray, lasts: np.ndarray
    ) -> Tokens:
        """Returns tokens that are normalized characters `firsts` to before `lasts`."""
        first_word = int(len(ids) > 0 and ids[0] == self._white_space)
        return Tokens(ids, *_spans(begins, firsts, lasts), first_word)

    def _begins(self, prepared: str, origin: np.ndarray, normalized: str) -> np.ndarray:
        """Returns where in the text each character of `normalized` begins and the last one ends."""
        if normalized == "▁" + prepared.replace(" ", "▁"):
            # Nothing was changed but for the white space before the first word.
            return _begins_of_kept_text(origin)
        spelled, offsets = self._model.normalize(prepared, with_offsets=True)
        if spelled != normalized:
            raise UserError(
                "the pieces of the SentencePiece model do not spell its normalized text; models "
                "with byte fallback are not supported"
            )
        return origin[np.array(offsets)]

    def _cut_comma_piece(self, piece: str) -> tuple[tuple[str, int, int], ...]:
        """Returns the parts of a piece with a digit and a comma at its end, and their places."""
        kept = [i for i, char in enumerate(piece[:-1]) if char != "▁"]
        number = "".join(piece[i] for i in kept)
        _, offsets = self._model.normalize(number, with_offsets=True)
        # The white space put before the number is the piece's own where it has one, else nothing.
        places = [*kept, len(piece) - 1]
        parts, position = [], 0
        for part in self._model.encode(number, out_type=str):
            begin, end = offsets[position], offsets[position + len(part)]
            first = 0 if position == 0 else places[begin]
            parts.append((part, first, places[end]))
            position += len(part)
        return (*parts, (",", len(piece) - 1, len(piece)))


class WordAligner:
    """Tokenizes texts with one WordPiece vocabulary and says where the tokens come from."""

    def __init__(self, wordpiece: WordpieceTokenizer, unk_id: int):
        """Prepares; what no piece is known of gets the id `unk_id`."""
        self._pieces = _PiecesOfWords(wordpiece, unk_id)

    def ids(self, text: str, lower: bool) -> list[int]:
        """Returns the ids of a text's tokens."""
        return [i for word in BasicTokenizer(lower).tokenize(text) for i in self._pieces[word][0]]

    def tokenize(self, text: str, lower: bool) -> Tokens:
        """Returns the tokens of a text with their places."""
        words = BasicTokenizer(lower).tokenize(text)
        pieces = list(map(self._pieces.__getitem__, words))
        ids, lengths = (
            np.fromiter(itertools.chain.from_iterable(piece[k] for piece in pieces), np.int32)
            for k in range(2)
        )
        # Where the characters of words and white space come from, and the text's end.
        widths = _WIDTHS[lower].of(text)
        begins = np.arange(len(text)).repeat(np.abs(widths))
        of_words = np.flatnonzero(widths[begins] > 0)
        begins = np.append(begins, len(text))
        lasts = lengths.cumsum()
        return Tokens(ids, *_spans(begins, of_words[lasts - lengths], of_words[lasts - 1] + 1), 0)


class _PiecesOfWords(dict):
    """The ids of a word's pieces and the pieces' lengths; remembers those of many words."""

    def __init__(self, wordpiece: WordpieceTokenizer, unk_id: int):
        super().__init__()
        self._wordpiece = wordpiece
        self._unk_id = unk_id

    def __missing__(self, word: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        pieces = self._wordpiece.pieces_of(word)
        if not pieces:
            # It may be very long, and is not remembered.
            return (self._unk_id,), (len(word),)
        if len(self) == _REMEMBERED_WORDS:
            self.clear()
        lengths = (len(pieces[0]), *(len(piece) - len("##") for piece in pieces[1:]))
        self[word] = found = tuple(map(self._wordpiece.vocab.__getitem__, pieces)), lengths
        return found


class _Widths:
    """How many characters of words the `BasicTokenizer` makes of each character, by code point.

    Those of a text are those of its characters, one after the other: what depends on neighbours,
    such as the final sigma, changes no number. White space has -1.
    """

    _UNSEEN = -128

    def __init__(self, lower: bool):
        self._basic = BasicTokenizer(lower)
        self._seen = np.full(sys.maxunicode + 1, self._UNSEEN, np.int8)

    def of(self, text: str) -> np.ndarray:
        """Returns the numbers of a text, int8 [its length]."""
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        widths = self._seen[codes]
        if (widths == self._UNSEEN).any():
            for char in set(text):
                self._seen[ord(char)] = self._width(char)
            widths = self._seen[codes]
        return widths

    def _width(self, char: str) -> int:
        words = self._basic.tokenize(char)
        return sum(map(len, words)) or -self._basic.is_space(char)


_WIDTHS = {lower: _Widths(lower) for lower in (True, False)}


def _begins_of_kept_text(origin: np.ndarray) -> np.ndarray:
    """Returns where characters begin if just a white space is put before the first word."""
    return np.concatenate([origin[:1], origin])


def _spans(
    begins: np.ndarray, firsts: np.ndarray, lasts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns character spans of tokens that are normalized characters `firsts` to before `lasts`.

    A character ends where the next one that has another place begins.
    """
    starts, nexts = begins[firsts], begins[lasts]
    if (nexts > begins[lasts - 1]).all() and (lasts > firsts).all():
        return starts.astype(np.int32), (nexts - 1).astype(np.int32)
    following = np.searchsorted(begins, begins[np.maximum(lasts - 1, 0)], side="right")
    after = begins[np.minimum(following, len(begins) - 1)]
    ends = np.where(lasts > firsts, after, starts) - 1
    return starts.astype(np.int32), np.maximum.accumulate(ends).astype(np.int32)


def _prepare(text: str, lower: bool) -> tuple[str, np.ndarray]:
    """Returns `preprocess_text(text)`, and the places in `text` of its characters and its end."""
    if _is_plain(text):
        return (text.lower() if lower else text), np.arange(len(text) + 1)
    words = " ".join(text.split())
    changed = [char for char in set(words) if _STRIPPED[char] != char]
    if len(words) == len(text) and all(len(_STRIPPED[char]) == 1 for char in changed):
        # Every character becomes one character, that no rule changes any more.
        prepared, origin = words, np.arange(len(text) + 1)
        for char in changed:
            prepared = prepared.replace(char, _STRIPPED[char])
    else:
        prepared, origin = _prepare_slowly(text)
    # Lower-casing the stripped text changes no length: the one letter that would grow, U+0130,
    # has lost its dot. It is done at once because the final sigma depends on its neighbours.
    return (prepared.lower() if lower else prepared), origin


def _is_plain(text: str) -> bool:
    """Tells whether just the case of a text can change: ASCII with single spaces inside."""
    return (
        text.isascii()
        and text.isprintable()
        and "  " not in text
        and text[:1] != " "
        and text[-1:] != " "
    )


def _prepare_slowly(text: str) -> tuple[str, np.ndarray]:
    """Returns the same for any text, but for the case."""
    space = np.fromiter(map(str.isspace, text), bool, len(text))
    # One space for a run of white space, where the run begins; none at either end of the text.
    keep = ~space
    keep[1:] |= ~space[:-1]
    words = np.flatnonzero(~space)
    first, end = (words[0], words[-1] + 1) if len(words) else (0, 0)
    keep[:first] = keep[end:] = False
    parts = list(map(_STRIPPED.__getitem__, itertools.compress(text, keep)))
    lengths = np.fromiter(map(len, parts), np.int64, len(parts))
    return "".join(parts), np.append(np.repeat(np.flatnonzero(keep), lengths), end)


class _Stripped(dict):
    """White space to a space, other characters as `strip_character`; remembers its results."""

    def __missing__(self, char: str) -> str:
        self[char] = stripped = " " if char.isspace() else strip_character(char)
        return stripped


_STRIPPED = _Stripped()
