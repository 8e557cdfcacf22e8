"""Splitting of text into words for WordPiece vocabularies, and of words into pieces."""

from __future__ import annotations

import codecs
import collections
import functools
import io
import re
import sys
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

from albert.core.errors import UserError
from albert.core.files import check_readable, read_bytes
from albert.tokenizers.text_rules import WHITE_SPACE, TextRules
from albert.tokenizers.tokenizer_json import parse_tokenizer, vocabulary_of

# Code points of the CJK Unified Ideographs blocks. Hangul and kana are not split: they form words
# with spaces, or runs.
_CJK_BLOCKS = (
    *((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)),
    *((0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)),
)

# Longest key of a `Computed`: texts without spaces may have many words of many kilobytes.
_LONGEST_KEY = 100


def convert_to_unicode(text: str | bytes) -> str:
    """Converts UTF-8 bytes to a string and drops invalid bytes; returns a string unchanged."""
    if isinstance(text, str):
        return text
    if isinstance(text, bytes):
        return text.decode("utf-8", "ignore")
    raise ValueError(f"Unsupported string type: {type(text)}")


def load_vocab(vocab_file: str) -> collections.OrderedDict:
    """Reads a vocabulary with one token per line into a map from token to id.

    The id is the line's number. Text after white space in a line is ignored. Published vocabularies
    have lines of only U+2028 or similar. Lines that differ only in white space keep it, so each is
    a token. The file may also be a `tokenizer.json` of `transformers` with a WordPiece model.
    Raises a `UserError` if the file cannot be read, is not UTF-8, or has two equal lines.
    """
    check_readable(vocab_file, "vocabulary")
    content = read_bytes(vocab_file)
    if tokenizer := parse_tokenizer(content, vocab_file):
        return vocabulary_of(tokenizer, vocab_file)
    vocab: collections.OrderedDict[str, int] = collections.OrderedDict()
    for line in io.StringIO(_decoded(content, vocab_file), newline="\n"):
        whole = line.rstrip(" \t\r\n") or " "
        token = (whole.split() or [whole])[0]
        if token in vocab:
            token = whole
        if token in vocab:
            raise UserError(
                f"vocabulary {vocab_file}: lines {vocab[token] + 1} and {len(vocab) + 1} "
                f"are both {token!r}, but a line's number is the piece's id; use the file "
                "that came with the model, unchanged"
            )
        vocab[token] = len(vocab)
    return vocab


def _decoded(content: bytes, vocab_file: str) -> str:
    if content.startswith(codecs.BOM_UTF8):
        # The mark would be part of the first piece.
        raise UserError(
            f"vocabulary {vocab_file} begins with a byte order mark; save the file without it"
        )
    try:
        return content.decode()
    except UnicodeDecodeError as e:
        line = content.count(b"\n", 0, e.start) + 1
        raise UserError(
            f"vocabulary {vocab_file}: line {line} is not UTF-8; convert the file to UTF-8"
        ) from e


class BasicTokenizer:
    """A tokenizer that removes control characters and separates punctuation and CJK characters.

    The arguments are those of `Normalization`; `rules` are those of `transformers`, or None.
    """

    def __init__(
        self,
        do_lower_case=True,
        strip_accents=None,
        tokenize_chinese_chars=True,
        rules: TextRules | None = None,
    ):
        self.do_lower_case = do_lower_case
        self.strips_marks = do_lower_case if strip_accents is None else strip_accents
        self._is_theirs, self._cleans = rules is not None, rules is None or rules.cleans
        self._clean = _table_of(tokenize_chinese_chars, self._is_theirs, self._cleans)

    def normalize(self, text: str) -> str:
        """Returns a text as it is before it is split at punctuation."""
        text = text.translate(self._clean)
        if self.do_lower_case:
            # `transformers` knows no final sigma. `lower` is faster than a table.
            is_special = self._is_theirs and "\u03a3" in text
            text = text.translate(_LOWER) if is_special else text.lower()
        return strip_marks(text) if self.strips_marks else text

    def tokenize(self, text: str | bytes) -> list[str]:
        """Returns the words of a text, by default in lower case and without accents."""
        text = self.normalize(convert_to_unicode(text)).translate(_PUNCTUATION_APART)
        return text.split() if self._cleans else _WORDS.findall(text)

    def is_space(self, char: str) -> bool:
        """Returns whether a character separates words; control characters are only removed."""
        return not _WORDS.search(char.translate(self._clean) or "x")


def strip_marks(text: str) -> str:
    """Returns a text in its NFD form without nonspacing marks: "é" becomes "e"."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFD", text).translate(_WITHOUT_MARKS)


def words_in(text: str) -> list[tuple[int, int]]:
    """Returns the start and end of each word of a text, as the `BasicTokenizer` splits it."""
    return [word.span() for word in re.finditer(r"a+|\.", text.translate(_KINDS))]


class WordpieceTokenizer:
    """A tokenizer that splits words into the longest known pieces, from the left."""

    def __init__(
        self,
        vocab: Mapping[str, Any],
        unk_token: str = "[UNK]",
        max_input_chars_per_word: int = 200,
    ):
        self.vocab = vocab
        self.unk_token = unk_token
        self.max_input_chars_per_word = max_input_chars_per_word

    def tokenize(self, text: str | bytes) -> list[str]:
        """Splits a text into words, and words into pieces, with "##" before pieces inside a word.

        A word that cannot be split into known pieces, or is longer than
        `max_input_chars_per_word`, becomes `unk_token`.
        """
        pieces = []
        for word in convert_to_unicode(text).split():
            pieces += self.pieces_of(word) or [self.unk_token]
        return pieces

    def pieces_of(self, word: str) -> list[str]:
        """Returns the pieces of a word, or an empty list if the word cannot be split."""
        if len(word) > self.max_input_chars_per_word:
            return []
        pieces, start = [], 0
        while start < len(word):
            prefix, end = "##" if start else "", len(word)
            while prefix + word[start:end] not in self.vocab:
                end -= 1
                if end == start:
                    return []
            pieces.append(prefix + word[start:end])
            start = end
        return pieces


class Computed(dict):
    """A dictionary that computes missing values; keeps at most `limit`, and none of long texts."""

    def __init__(self, compute: Callable[[Any], Any], limit: int = sys.maxsize):
        super().__init__()
        self._compute, self._limit = compute, limit

    def __missing__(self, key: Any) -> Any:
        value = self._compute(key)
        if isinstance(key, int) or len(key) <= _LONGEST_KEY:
            if len(self) == self._limit:
                self.clear()
            self[key] = value
        return value


def _table(translated: Callable[[str], str]) -> Computed:
    """Returns a table for `str.translate`."""
    return Computed(lambda code: translated(chr(code)))


@functools.cache
def _table_of(splits_cjk: bool, is_theirs: bool, cleans: bool) -> Computed:
    """Returns the table that cleans text; `is_theirs` is whether it is that of `transformers`."""

    def clean(char: str) -> str:
        if splits_cjk and _is_cjk(ord(char)):
            return f" {char} "
        if not cleans:
            return char
        # They also remove characters that are private, or not assigned.
        return "" if is_theirs and unicodedata.category(char) in ("Co", "Cn") else _clean(char)

    return _table(clean)


def _clean(char: str) -> str:
    """Removes control characters, and makes white space a space."""
    if char in "\x00\ufffd" or _is_control(char):
        return ""
    return " " if _is_whitespace(char) else char


def _is_cjk(code: int) -> bool:
    return any(first <= code <= last for first, last in _CJK_BLOCKS)


def _is_whitespace(char: str) -> bool:
    """Returns whether a character is a space, tab, line end, or another of Unicode's spaces."""
    return char in " \t\n\r" or unicodedata.category(char) == "Zs"


def _is_control(char: str) -> bool:
    """Returns whether a character is a control or format character and not white space."""
    return char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf")


def _is_punctuation(char: str) -> bool:
    """Returns whether a character is Unicode punctuation, or an ASCII sign such as "$" or "^"."""
    ascii_sign = "!" <= char <= "~" and not char.isalnum()
    return ascii_sign or unicodedata.category(char).startswith("P")


_LOWER = _table(str.lower)
# The white space of `split` has more characters.
_WORDS = re.compile(f"[^{WHITE_SPACE}]+")
_WITHOUT_MARKS = _table(lambda char: "" if unicodedata.category(char) == "Mn" else char)
_PUNCTUATION_APART = _table(lambda char: f" {char} " if _is_punctuation(char) else char)
# White space as a space, characters that are words on their own as a period, others as a letter.
_KINDS = _table(
    lambda c: " " if c.isspace() else "." if _is_punctuation(c) or _is_cjk(ord(c)) else "a"
)
