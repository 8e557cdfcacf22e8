"""The alignment of tokens with the characters of a text.

All steps from a text to its tokens work from left to right, and change single characters or runs of
white space. For SentencePiece, these steps are `preprocess_text` and the model's own normalizer,
which reports the offsets of its output; for WordPiece, the step is the `BasicTokenizer`. Carrying
the positions along gives the map in linear time without a search.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import sys
from collections.abc import Sequence

import numpy as np
import sentencepiece as spm

from albert.core.errors import UserError
from albert.tokenizers.sentencepiece_text import (
    ends_in_digit_comma,
    keep_character,
    strip_character,
)
from albert.tokenizers.text_rules import Normalization
from albert.tokenizers.wordpiece_text import BasicTokenizer, Computed, WordpieceTokenizer

_REMEMBERED_WORDS = 1 << 16
# The width of a character that no text has had.
_UNSEEN = -128


@dataclasses.dataclass(frozen=True, eq=False)
class Tokens:
    """The tokens of a text, in order.

    Attributes:
      ids: int32 ids.
      starts: int32, position of each token's first character in the text. A token that includes the
        white space before a word starts there, at the first character of a run.
      ends: int32, position of each token's last character. For a token without characters it is
        `starts - 1`, unless the ends would then decrease.
      first_word: number of the token that begins the first word. It is above 0 if the white space
        that is added before the first word is a separate token, or two ("▁1995," is split again);
        such a token starts at the word's first character too.
    """

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    first_word: int

    def span_of(self, first: int, last: int) -> tuple[int, int]:
        """Returns the first and last token that cover characters `first` to `last`, inclusive.

        As in the reference, a span begins at a word and not at the white space before the text.
        """
        start = max(int(self.ends.searchsorted(first)), self.first_word)
        end = int(self.starts.searchsorted(last, side="right")) - 1
        start = min(start, len(self.ids) - 1)
        return start, max(end, start)

    def pieces_in(self, text: str) -> list[tuple[int, int]]:
        """Returns the start and end of each token with characters, without white space around."""
        pieces = list[tuple[int, int]]()
        for start, last in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            part = text[start : last + 1]
            if part.strip():
                pieces.append((last + 1 - len(part.lstrip()), start + len(part.rstrip())))
        return pieces

    def first_pieces(
        self, words: Sequence[tuple[int, int]]
    ) -> tuple[np.ndarray, list[tuple[int, int]]]:
        """Returns the numbers of the tokens in which words begin, and these words.

        Words that begin in the same token become one, and words that no token covers are skipped.
        Each word has its start and its end in the text; ends are exclusive.
        """
        starts, ends = np.array(words, np.int32).reshape(-1, 2).T
        pieces = self.ends.searchsorted(starts)
        known = pieces < len(self.ids)
        known[known] = self.starts[pieces[known]] < ends[known]
        pieces, starts, ends = pieces[known], starts[known], ends[known]
        firsts = np.diff(pieces, prepend=-1) > 0
        lasts = np.diff(pieces, append=len(self.ids)) > 0
        joined = zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True)
        return pieces[firsts], list(joined)


class Aligner:
    """A tokenizer for one SentencePiece model that also returns the tokens' positions."""

    def __init__(self, sp_model: spm.SentencePieceProcessor, normalization: Normalization):
        self._model = sp_model
        self._lower = normalization.do_lower_case
        self._characters = _STRIPPED
        if normalization.keep_accents:
            self._characters = _LOWERED if self._lower else _KEPT
        # Pieces and their lengths, by id.
        self._pieces = sp_model.id_to_piece(list(range(sp_model.get_piece_size())))
        self._lengths = np.fromiter(map(len, self._pieces), np.int64)
        # Pieces that need care: the unknown piece, and those to which the comma rule applies.
        self._special = np.fromiter(map(ends_in_digit_comma, self._pieces), bool)
        self._special[sp_model.unk_id()] = True
        self._white_space = self._pieces.index("▁") if "▁" in self._pieces else None
        self._parts_of_comma_piece = functools.cache(self._cut_comma_piece)

    def tokenize(self, text: str) -> Tokens:
        """Returns tokens as `encode_pieces(preprocess_text(text, ...))`, with positions.

        Raises a `UserError` if the concatenated pieces differ from the model's normalized text.
        """
        prepared, origin = _prepare(text, self._lower, self._characters)
        encoded = self._model.encode(prepared)
        ids = np.array(encoded, np.int32)
        special = np.flatnonzero(self._special[ids])
        pieces, lengths = list(map(self._pieces.__getitem__, encoded)), self._lengths[ids]
        if len(special) and self._model.unk_id() in ids[special]:
            # With the characters that have no piece, which may spell one, such as [CLS].
            pieces = self._model.encode(prepared, out_type=str)
            ids = np.array(self._model.piece_to_id(pieces), np.int32)
            lengths = np.fromiter(map(len, pieces), np.int64)
        begins = self._begins(prepared, origin, "".join(pieces))
        lasts = lengths.cumsum()
        firsts = lasts - lengths
        if commas := [n for n in special.tolist() if ends_in_digit_comma(pieces[n])]:
            tokens, parts, done = np.array([ids, firsts, lasts]), list[np.ndarray](), 0
            for number in commas:
                first = firsts[number]
                cut = self._parts_of_comma_piece(pieces[number]) + [[0], [first], [first]]
                parts += tokens[:, done:number], cut
                done = number + 1
            ids, firsts, lasts = np.concatenate([*parts, tokens[:, done:]], axis=1)
        first_word = int((ids != self._white_space).argmax()) if len(ids) else 0
        return Tokens(ids.astype(np.int32), *_spans(begins, firsts, lasts), first_word)

    def _begins(self, prepared: str, origin: np.ndarray, normalized: str) -> np.ndarray:
        """Returns the start in the text of each character of `normalized`, and the text's end."""
        if normalized == "▁" + prepared.replace(" ", "▁"):
            # The only change is the white space before the first word.
            return np.concatenate([origin[:1], origin])
        spelled, offsets = self._model.normalize(prepared, with_offsets=True)
        if spelled != normalized:
            raise UserError(
                "the pieces of the SentencePiece model do not spell its normalized text; models "
                "with byte fallback are not supported"
            )
        return origin[np.array(offsets)]

    def _cut_comma_piece(self, piece: str) -> np.ndarray:
        """Returns the parts of a piece that ends in a digit and a comma: ids, begins and ends."""
        kept = [i for i, char in enumerate(piece[:-1]) if char != "▁"]
        number = "".join(piece[i] for i in kept)
        _, offsets = self._model.normalize(number, with_offsets=True)
        # The white space before the number belongs to the piece if it has some; otherwise it maps
        # to no character.
        positions = [*kept, len(piece) - 1]
        parts, position = [], 0
        for part in self._model.encode(number, out_type=str):
            begin, end = offsets[position], offsets[position + len(part)]
            first = 0 if position == 0 else positions[begin]
            parts.append((self._model.piece_to_id(part), first, positions[end]))
            position += len(part)
        return np.array([*parts, (self._model.piece_to_id(","), len(piece) - 1, len(piece))]).T


class WordAligner:
    """A tokenizer for one WordPiece vocabulary that also returns the tokens' positions."""

    def __init__(self, basic: BasicTokenizer, wordpiece: WordpieceTokenizer, unk_id: int):
        """Makes an aligner that gives words without known pieces the id `unk_id`."""
        self._basic, self._wordpiece, self._unk_id = basic, wordpiece, unk_id
        self._pieces = Computed(self._pieces_of, _REMEMBERED_WORDS)
        self._widths = np.full(sys.maxunicode + 1, _UNSEEN, np.int8)

    def ids(self, text: str) -> list[int]:
        """Returns the ids of a text's tokens."""
        return [i for word in self._basic.tokenize(text) for i in self._pieces[word][0]]

    def tokenize(self, text: str) -> Tokens:
        """Returns the tokens of a text, with their positions."""
        pieces = list(map(self._pieces.__getitem__, self._basic.tokenize(text)))
        ids, lengths = (
            np.fromiter(itertools.chain.from_iterable(piece[k] for piece in pieces), np.int32)
            for k in range(2)
        )
        # Position in the text of each character of words and white space, and of the text's end.
        widths = self._widths_of(text)
        begins = np.arange(len(text)).repeat(np.abs(widths))
        in_words = np.flatnonzero(widths[begins] > 0)
        begins = np.append(begins, len(text))
        lasts = lengths.cumsum()
        return Tokens(ids, *_spans(begins, in_words[lasts - lengths], in_words[lasts - 1] + 1), 0)

    def _pieces_of(self, word: str) -> tuple[Sequence[int], Sequence[int]]:
        """Returns the ids and the lengths of a word's pieces."""
        pieces = self._wordpiece.pieces_of(word)
        if not pieces:
            return (self._unk_id,), (len(word),)
        ids = tuple(map(self._wordpiece.vocab.__getitem__, pieces))
        return ids, (len(pieces[0]), *(len(piece) - len("##") for piece in pieces[1:]))

    def _widths_of(self, text: str) -> np.ndarray:
        """Returns the number of characters that the `BasicTokenizer` makes of each character, int8.

        Context such as the final sigma changes no number, so characters can be counted separately.
        White space has the number -1.
        """
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        if (self._widths[codes] == _UNSEEN).any():
            for char in set(text):
                width = sum(map(len, self._basic.tokenize(char)))
                self._widths[ord(char)] = width or -self._basic.is_space(char)
        return self._widths[codes]


def _spans(
    begins: np.ndarray, firsts: np.ndarray, lasts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns spans of tokens; a character ends where the next with another position begins."""
    starts, nexts = begins[firsts], begins[lasts]
    if (nexts > begins[lasts - 1]).all() and (lasts > firsts).all():
        return starts.astype(np.int32), (nexts - 1).astype(np.int32)
    following = np.searchsorted(begins, begins[np.maximum(lasts - 1, 0)], side="right")
    after = begins[np.minimum(following, len(begins) - 1)]
    ends = np.where(lasts > firsts, after, starts) - 1
    return starts.astype(np.int32), np.maximum.accumulate(ends).astype(np.int32)


def _prepare(text: str, lower: bool, characters: Computed) -> tuple[str, np.ndarray]:
    """Returns `preprocess_text(text)`, and positions in `text` of its characters and its end."""
    words = " ".join(text.split())
    # No rule changes a character of ASCII.
    changed = [c for c in set("" if words.isascii() else words) if characters[c] != c]
    if len(words) == len(text) and all(len(characters[char]) == 1 for char in changed):
        # Every character becomes one character, and no further rule changes it.
        prepared, origin = words, np.arange(len(text) + 1)
        for char in changed:
            prepared = prepared.replace(char, characters[char])
    else:
        prepared, origin = _prepare_slowly(text, characters)
    # Lower-casing now changes no length: the only letter that would grow, U+0130, has lost its dot
    # or is in `_LOWERED`. The whole text is lower-cased at once because a final sigma depends on
    # context.
    return (prepared.lower() if lower else prepared), origin


def _prepare_slowly(text: str, characters: Computed) -> tuple[str, np.ndarray]:
    """Does the same for any text, without lower-casing."""
    space = np.fromiter(map(str.isspace, text), bool, len(text))
    # A run of white space becomes one space at its start; white space at both ends is removed.
    keep = ~space
    keep[1:] |= ~space[:-1]
    words = np.flatnonzero(~space)
    first, end = (words[0], words[-1] + 1) if len(words) else (0, 0)
    keep[:first] = keep[end:] = False
    parts = list(map(characters.__getitem__, itertools.compress(text, keep)))
    lengths = np.fromiter(map(len, parts), np.int64, len(parts))
    return "".join(parts), np.append(np.repeat(np.flatnonzero(keep), lengths), end)


# What becomes of a character.
_STRIPPED = Computed(lambda c: " " if c.isspace() else strip_character(c))
_KEPT = Computed(lambda c: " " if c.isspace() else keep_character(c))
_LOWERED = Computed(lambda c: c.lower() if len(c.lower()) > 1 else _KEPT[c])
