"""The splitting of text into words for WordPiece vocabularies, and of words into pieces."""

from __future__ import annotations

import codecs
import collections
import io
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

from albert.core.errors import UserError
from albert.core.files import check_readable, read_bytes

# Code points of the CJK Unified Ideographs blocks; Hangul and kana are words with spaces or runs
# of their own and are not split.
_CJK_BLOCKS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def convert_to_unicode(text: str | bytes) -> str:
    """Returns a string from a string or from UTF-8 bytes, of which invalid ones are dropped."""
    if isinstance(text, str):
        return text
    if isinstance(text, bytes):
        return text.decode("utf-8", "ignore")
    raise ValueError(f"Unsupported string type: {type(text)}")


def load_vocab(vocab_file: str) -> collections.OrderedDict:
    """Reads a vocabulary, a token a line, with what follows white space ignored: token to id.

    The id is the line's number. Published vocabularies have lines of nothing but U+2028 or the
    like; lines that differ in white space alone keep it, so that each is a token.

    Raises:
      UserError: the file cannot be read, is not UTF-8, or two lines are the same.
    """
    vocab: collections.OrderedDict[str, int] = collections.OrderedDict()
    for line in io.StringIO(_read_text(vocab_file), newline="\n"):
        whole = line.rstrip(" \t\r\n") or " "
        token = (whole.split() or [whole])[0]
        if token in vocab:
            token = whole
        if token in vocab:
            raise UserError(
                f"vocabulary {vocab_file}: lines {vocab[token] + 1} and {len(vocab) + 1} "
                f"are both {token!r}; a line's number is the piece's id: give the file as "
                "it came with the model"
            )
        vocab[token] = len(vocab)
    return vocab


def _read_text(vocab_file: str) -> str:
    """Returns the content of a vocabulary.

    Raises:
      UserError: see `load_vocab`.
    """
    check_readable(vocab_file, "vocabulary")
    content = read_bytes(vocab_file)
    if content.startswith(codecs.BOM_UTF8):
        # It would be part of the first piece.
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
    """Words and punctuation, with control characters removed and CJK characters apart."""

    def __init__(self, do_lower_case=True):
        self.do_lower_case = do_lower_case

    def tokenize(self, text: str | bytes) -> list[str]:
        """Returns the words of a text; lower case and without accents if `do_lower_case`."""
        text = convert_to_unicode(text).translate(_CLEAN)
        if self.do_lower_case:
            text = text.lower()
            if not text.isascii():
                text = unicodedata.normalize("NFD", text).translate(_WITHOUT_MARKS)
        return text.translate(_PUNCTUATION_APART).split()

    @staticmethod
    def is_space(char: str) -> bool:
        """Tells whether a character stands between words, and does not just vanish."""
        return char.translate(_CLEAN).isspace()


class WordpieceTokenizer:
    """Cuts words into the longest known pieces from the left."""

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
        """Returns pieces of white-space separated words, "##" before those inside a word.

        A word that cannot be cut into known pieces, or is longer than
        `max_input_chars_per_word`, becomes `unk_token`.
        """
        pieces = []
        for word in convert_to_unicode(text).split():
            pieces += self.pieces_of(word) or [self.unk_token]
        return pieces

    def pieces_of(self, word: str) -> list[str]:
        """Returns the pieces of a word; none if there is no way to cut it."""
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


class _Table(dict):
    """A table for `str.translate`, made of single characters when they first occur."""

    def __init__(self, translated: Callable[[str], str]):
        super().__init__()
        self._translated = translated

    def __missing__(self, code: int) -> str:
        self[code] = text = self._translated(chr(code))
        return text


def _clean(char: str) -> str:
    """Returns nothing for control characters, a space for white space, spaces around CJK."""
    if char in "\x00\ufffd" or _is_control(char):
        return ""
    if _is_whitespace(char):
        return " "
    return f" {char} " if _is_cjk(ord(char)) else char


def _is_cjk(code: int) -> bool:
    return any(first <= code <= last for first, last in _CJK_BLOCKS)


def _is_whitespace(char: str) -> bool:
    """Tells whether a character is a space, tab, line end, or another of Unicode's spaces."""
    return char in " \t\n\r" or unicodedata.category(char) == "Zs"


def _is_control(char: str) -> bool:
    """Tells whether a character is for control or format, and does not count as white space."""
    return char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf")


def _is_punctuation(char: str) -> bool:
    """Tells whether a character is Unicode punctuation, or an ASCII sign such as "$" or "^"."""
    ascii_sign = "!" <= char <= "~" and not char.isalnum()
    return ascii_sign or unicodedata.category(char).startswith("P")


_CLEAN = _Table(_clean)
_WITHOUT_MARKS = _Table(lambda char: "" if unicodedata.category(char) == "Mn" else char)
_PUNCTUATION_APART = _Table(lambda char: f" {char} " if _is_punctuation(char) else char)
