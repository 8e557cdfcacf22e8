"""Text to tokens: SentencePiece (ALBERT v1, v2) and WordPiece."""

from __future__ import annotations

import collections
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sentencepiece as spm
import tensorflow.compat.v1 as tf

from runtime.errors import UserError

SPIECE_UNDERLINE = "▁".encode()
_UNDERLINE = "▁"
# A lone surrogate cannot be encoded in UTF-8; JSON can hold one all the same.
_REPLACEMENT = "\ufffd"
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


def preprocess_text(inputs: str, remove_space: bool = True, lower: bool = False) -> str:
    """Text as the SentencePiece models were trained on it.

    Runs of white space become one space (`remove_space`), characters their NFKD form without
    combining marks, and letters lower case (`lower`).
    """
    text = " ".join(inputs.split()) if remove_space else inputs
    if not text.isascii():
        text = "".join(map(strip_character, text))
    return text.lower() if lower else text


def strip_character(char: str) -> str:
    """The NFKD form of a character without combining marks: "é" to "e", "½" to "1⁄2".

    Without its marks, the NFKD form of a text is that of its characters one after the other.
    """
    if 0xD800 <= ord(char) <= 0xDFFF:
        return _REPLACEMENT
    return "".join(c for c in unicodedata.normalize("NFKD", char) if not unicodedata.combining(c))


def encode_pieces(
    sp_model: spm.SentencePieceProcessor,
    text: str,
    return_unicode: bool = True,
    sample: bool = False,
) -> list[str]:
    """The pieces of a text; one that ends in a digit and a comma is cut again without the comma.

    Args:
      sp_model: the SentencePiece model.
      text: what `preprocess_text` returned.
      return_unicode: kept for compatibility; pieces are always strings.
      sample: draw a segmentation (n-best 64, alpha 0.1) instead of the best one.
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
    """Whether the comma rule of `encode_pieces` applies to a piece, such as "▁1995,"."""
    return piece[-1:] == "," and piece[-2:-1].isdigit()


def encode_ids(sp_model: spm.SentencePieceProcessor, text: str, sample: bool = False) -> list[int]:
    """The ids of `encode_pieces`."""
    if not sample and text.isascii() and "," not in text:
        return sp_model.encode(text)
    return sp_model.piece_to_id(encode_pieces(sp_model, text, sample=sample))


def encode_ids_of_all(
    sp_model: spm.SentencePieceProcessor, texts: Sequence[str]
) -> list[list[int]]:
    """The ids of several texts, each as `encode_ids` gives them; faster than one by one."""
    plain = [text for text in texts if text.isascii() and "," not in text]
    encoded = dict(zip(plain, sp_model.encode(plain, num_threads=1), strict=True))
    return [encoded.get(text) or encode_ids(sp_model, text) for text in texts]


def convert_to_unicode(text: str | bytes) -> str:
    """A string from a string or from UTF-8 bytes, of which invalid ones are dropped."""
    if isinstance(text, str):
        return text
    if isinstance(text, bytes):
        return text.decode("utf-8", "ignore")
    raise ValueError(f"Unsupported string type: {type(text)}")


def printable_text(text: str | bytes) -> str:
    """What to print for a text; the same as `convert_to_unicode` since Python 3."""
    return convert_to_unicode(text)


def load_vocab(vocab_file: str) -> collections.OrderedDict:
    """Reads a vocabulary, a token a line (what follows white space is ignored): token to id."""
    vocab = collections.OrderedDict()
    try:
        with open(vocab_file, encoding="utf-8", errors="ignore") as reader:
            for line in reader:
                token = line.split()[0] if line.strip() else " "
                vocab.setdefault(token, len(vocab))
    except OSError as e:
        raise UserError(f"vocabulary {vocab_file} cannot be read: {e.strerror}") from e
    return vocab


def convert_by_vocab(vocab: Mapping, items: Iterable) -> list:
    """Looks up every item."""
    return [vocab[item] for item in items]


def convert_tokens_to_ids(vocab: Mapping[str, int], tokens: Iterable[str]) -> list[int]:
    """Ids of tokens."""
    return convert_by_vocab(vocab, tokens)


def convert_ids_to_tokens(inv_vocab: Mapping[int, str], ids: Iterable[int]) -> list[str]:
    """Tokens of ids."""
    return convert_by_vocab(inv_vocab, ids)


def whitespace_tokenize(text: str) -> list[str]:
    """The words between white space."""
    return text.split()


class FullTokenizer:
    """SentencePiece where a model is given, else basic and WordPiece tokenization.

    Attributes:
      vocab, inv_vocab: token to id, id to token.
      sp_model: the `SentencePieceProcessor`, or None.
    """

    def __init__(self, vocab_file, do_lower_case=True, spm_model_file=None):
        """Loads the model `spm_model_file`, or else the WordPiece vocabulary `vocab_file`.

        Raises:
          UserError: the file is missing or is none.
        """
        self.sp_model = None
        if spm_model_file:
            self.sp_model = _load_sentencepiece(spm_model_file)
            size = self.sp_model.get_piece_size()
            self.vocab = {self.sp_model.id_to_piece(i): i for i in range(size)}
        elif vocab_file:
            self.vocab = load_vocab(vocab_file)
            self.basic_tokenizer = BasicTokenizer(do_lower_case=do_lower_case)
            self.wordpiece_tokenizer = WordpieceTokenizer(vocab=self.vocab)
        else:
            raise UserError("a tokenizer needs a SentencePiece model or a vocabulary file")
        self.inv_vocab = {v: k for k, v in self.vocab.items()}

    @classmethod
    def from_scratch(cls, vocab_file, do_lower_case, spm_model_file):
        """The same as the constructor."""
        return cls(vocab_file, do_lower_case, spm_model_file)

    def tokenize(self, text: str) -> list[str]:
        """Pieces of a text, as it is (see `preprocess_text` for SentencePiece)."""
        if self.sp_model:
            return encode_pieces(self.sp_model, text)
        return [
            piece
            for word in self.basic_tokenizer.tokenize(text)
            for piece in self.wordpiece_tokenizer.tokenize(word)
        ]

    def convert_tokens_to_ids(self, tokens: Sequence[str | bytes]) -> list[int]:
        """Ids of pieces; SentencePiece gives its unknown id for what it does not know."""
        if self.sp_model:
            return [self.sp_model.piece_to_id(printable_text(token)) for token in tokens]
        return convert_by_vocab(self.vocab, tokens)

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """Pieces of ids."""
        if self.sp_model:
            return [self.sp_model.id_to_piece(int(i)) for i in ids]
        return convert_by_vocab(self.inv_vocab, ids)


def _load_sentencepiece(path: str) -> spm.SentencePieceProcessor:
    try:
        with open(path, "rb") as reader:
            content = reader.read()
    except OSError as e:
        raise UserError(f"SentencePiece model {path} cannot be read: {e.strerror}") from e
    model = spm.SentencePieceProcessor()
    try:
        model.LoadFromSerializedProto(content)
    except RuntimeError as e:
        raise UserError(f"{path} is not a SentencePiece model") from e
    tf.logging.info("SentencePiece model %s: %d pieces", path, model.get_piece_size())
    return model


class BasicTokenizer:
    """Words and punctuation, with control characters removed and CJK characters apart."""

    def __init__(self, do_lower_case=True):
        self.do_lower_case = do_lower_case

    def tokenize(self, text: str | bytes) -> list[str]:
        """The words of a text; lower case and without accents if `do_lower_case`."""
        cleaned = "".join(map(self._clean, convert_to_unicode(text)))
        tokens = []
        for word in cleaned.split():
            if self.do_lower_case:
                word = _strip_accents(word.lower())
            tokens += _split_on_punctuation(word)
        return " ".join(tokens).split()

    @staticmethod
    def _clean(char: str) -> str:
        if char in "\x00\ufffd" or _is_control(char):
            return ""
        if _is_whitespace(char):
            return " "
        return f" {char} " if _is_cjk(ord(char)) else char


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
        """Pieces of white-space separated words, "##" before those inside a word.

        A word that cannot be cut into known pieces, or is longer than
        `max_input_chars_per_word`, becomes `unk_token`.
        """
        pieces = []
        for word in convert_to_unicode(text).split():
            pieces += self._pieces_of(word) or [self.unk_token]
        return pieces

    def _pieces_of(self, word: str) -> list[str]:
        """The pieces of a word; none if there is no way to cut it."""
        if len(word) > self.max_input_chars_per_word:
            return []
        pieces, start = [], 0
        while start < len(word):
            prefix = "##" if start else ""
            end = next(
                (e for e in range(len(word), start, -1) if prefix + word[start:e] in self.vocab),
                None,
            )
            if end is None:
                return []
            pieces.append(prefix + word[start:end])
            start = end
        return pieces


def _strip_accents(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")


def _split_on_punctuation(text: str) -> list[str]:
    """Every punctuation character is a token of its own."""
    return "".join(f" {c} " if _is_punctuation(c) else c for c in text).split()


def _is_cjk(code: int) -> bool:
    return any(first <= code <= last for first, last in _CJK_BLOCKS)


def _is_whitespace(char: str) -> bool:
    """Space, tab, line ends and the Unicode category of spaces."""
    return char in " \t\n\r" or unicodedata.category(char) == "Zs"


def _is_control(char: str) -> bool:
    """Control and format characters, except those that count as white space."""
    return char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf")


def _is_punctuation(char: str) -> bool:
    """Unicode punctuation, and all ASCII that is neither letter, digit, space nor control."""
    ascii_sign = "!" <= char <= "~" and not char.isalnum()
    return ascii_sign or unicodedata.category(char).startswith("P")
