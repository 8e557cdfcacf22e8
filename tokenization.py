"""Text to tokens: SentencePiece (ALBERT v1, v2) and WordPiece."""

from __future__ import annotations

import collections
import functools
import hashlib
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sentencepiece as spm
import tensorflow.compat.v1 as tf

from runtime.errors import UserError
from sentencepiece_text import (  # noqa: F401  The reference has these names here.
    SPIECE_UNDERLINE,
    encode_ids,
    encode_pieces,
    ends_in_digit_comma,
    preprocess_text,
)
from token_offsets import Aligner, Tokens

# A SentencePiece sign alone begins a word, and so does a piece with anything but signs and these
# letters.
_SIGNS = set('!"#$%&()*+,-./:;?@[\\]^_`{|}~')
_LETTERS = set("abcdefghijklmnopqrstuvwxyz")
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


def printable_text(text: str | bytes) -> str:
    """Returns what to print for a text; the same as `convert_to_unicode` since Python 3."""
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
    """Returns ids of tokens."""
    return convert_by_vocab(vocab, tokens)


def convert_ids_to_tokens(inv_vocab: Mapping[int, str], ids: Iterable[int]) -> list[str]:
    """Returns tokens of ids."""
    return convert_by_vocab(inv_vocab, ids)


def whitespace_tokenize(text: str) -> list[str]:
    """Returns the words between white space."""
    return text.split()


class FullTokenizer:
    """SentencePiece where a model is given, else basic and WordPiece tokenization.

    Attributes:
      vocab, inv_vocab: token to id, id to token.
      do_lower_case: whether `normalize` and `encode` lower-case.
      sp_model: the `SentencePieceProcessor`, or None.
    """

    def __init__(self, vocab_file, do_lower_case=True, spm_model_file=None):
        """Loads the model `spm_model_file`, or else the WordPiece vocabulary `vocab_file`.

        Raises:
          UserError: the file is missing or is none.
        """
        self.do_lower_case = do_lower_case
        self.sp_model = None
        self._file = spm_model_file or vocab_file
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
        """Makes a tokenizer as the constructor does."""
        return cls(vocab_file, do_lower_case, spm_model_file)

    @property
    def size(self) -> int:
        """Counts the tokens: ids are below it."""
        return len(self.vocab)

    @functools.cached_property
    def sha256(self) -> str:
        """Returns the hash of the SentencePiece model or of the vocabulary, hexadecimal."""
        if self.sp_model:
            return hashlib.sha256(self.sp_model.serialized_model_proto()).hexdigest()
        return hashlib.sha256("\n".join(self.vocab).encode()).hexdigest()

    @property
    def cls_id(self) -> int:
        """Returns the id of [CLS]; it and those below raise a `UserError` if there is none."""
        return self._special_id("[CLS]")

    @property
    def sep_id(self) -> int:
        """Returns the id of [SEP]."""
        return self._special_id("[SEP]")

    @property
    def mask_id(self) -> int:
        """Returns the id of [MASK]."""
        return self._special_id("[MASK]")

    @property
    def pad_id(self) -> int:
        """Returns the id of the padding."""
        return self._special_id("<pad>" if self.sp_model else "[PAD]")

    @property
    def unk_id(self) -> int:
        """Returns the id of what has no piece."""
        return self.sp_model.unk_id() if self.sp_model else self._special_id("[UNK]")

    def _special_id(self, piece: str) -> int:
        if piece not in self.vocab:
            raise UserError(f"{self._file} has no piece {piece}; is it one of ALBERT or BERT?")
        return self.vocab[piece]

    def begins_word(self, piece: str) -> bool:
        """Returns whether a piece begins a word, as the reference's masking of words has it."""
        if not self.sp_model:
            return not piece.startswith("##")
        inside = (_LETTERS | _SIGNS).issuperset(piece.lower())
        return piece[:1] in ("▁", "<") or piece in _SIGNS or not inside

    def normalize(self, text: str) -> str:
        """Returns a text as `tokenize` wants it; for WordPiece, which does the rest, stripped."""
        if self.sp_model:
            return preprocess_text(text, lower=self.do_lower_case)
        return text.strip()

    def encode(self, texts: Iterable[str], normalized: bool = False) -> list[list[int]]:
        """Returns the ids of each text: those of `tokenize(normalize(text))`.

        Args:
          texts: any number of texts; many at a time are faster.
          normalized: they are what `normalize` returned; twice is not always the same as once.

        Raises:
          UserError: a vocabulary without [UNK].
        """
        texts = list(texts if normalized else map(self.normalize, texts))
        if not self.sp_model:
            self._special_id("[UNK]")
            return [self.convert_tokens_to_ids(self.tokenize(text)) for text in texts]
        quick = self.sp_model.encode(texts, num_threads=1)
        return [
            ids if self._need_care.isdisjoint(ids) else encode_ids(self.sp_model, text)
            for ids, text in zip(quick, texts, strict=True)
        ]

    @functools.cached_property
    def _need_care(self) -> set[int]:
        """Returns ids of pieces that the comma rule may cut; the unknown one's may hide one."""
        return {self.unk_id, *(i for piece, i in self.vocab.items() if ends_in_digit_comma(piece))}

    def encode_with_offsets(self, text: str) -> Tokens:
        """Returns the tokens of a text as `encode` gives them, and the characters they stand for.

        Raises:
          UserError: there is no SentencePiece model, or it has byte fallback.
        """
        if not self.sp_model:
            raise UserError(
                f"places of WordPiece tokens in a text are not known: {self._file} cannot be used "
                "here, give a SentencePiece model (--spm_model_file)"
            )
        return self._aligner.tokenize(text, self.do_lower_case)

    @functools.cached_property
    def _aligner(self) -> Aligner:
        return Aligner(self.sp_model)

    def tokenize(self, text: str) -> list[str]:
        """Returns pieces of a text, as it is (see `preprocess_text` for SentencePiece)."""
        if self.sp_model:
            return encode_pieces(self.sp_model, text)
        return [
            piece
            for word in self.basic_tokenizer.tokenize(text)
            for piece in self.wordpiece_tokenizer.tokenize(word)
        ]

    def convert_tokens_to_ids(self, tokens: Sequence[str | bytes]) -> list[int]:
        """Returns ids of pieces; SentencePiece gives its unknown id for what it does not know."""
        if self.sp_model:
            return [self.sp_model.piece_to_id(printable_text(token)) for token in tokens]
        return convert_by_vocab(self.vocab, tokens)

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """Returns pieces of ids."""
        return [self.inv_vocab[int(i)] for i in ids]


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
        """Returns the words of a text; lower case and without accents if `do_lower_case`."""
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
        """Returns pieces of white-space separated words, "##" before those inside a word.

        A word that cannot be cut into known pieces, or is longer than
        `max_input_chars_per_word`, becomes `unk_token`.
        """
        pieces = []
        for word in convert_to_unicode(text).split():
            pieces += self._pieces_of(word) or [self.unk_token]
        return pieces

    def _pieces_of(self, word: str) -> list[str]:
        """Returns the pieces of a word; none if there is no way to cut it."""
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
    """Makes every punctuation character a token of its own."""
    return "".join(f" {c} " if _is_punctuation(c) else c for c in text).split()


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
