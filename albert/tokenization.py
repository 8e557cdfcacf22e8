"""Tokenization with SentencePiece (ALBERT v1, v2) and WordPiece (BERT, Chinese ALBERT)."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import sentencepiece as spm
import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.core.files import check_readable, read_bytes
from albert.tokenizers.offsets import Aligner, Tokens, WordAligner
from albert.tokenizers.sentencepiece_text import (  # noqa: F401  The reference has these names here.
    SPIECE_UNDERLINE,
    encode_ids,
    encode_pieces,
    ends_in_digit_comma,
    preprocess_text,
)
from albert.tokenizers.text_rules import LONGEST_WORD, AddedTokens, Normalization, TextRules
from albert.tokenizers.tokenizer_json import parse_tokenizer, sentencepiece_model_of
from albert.tokenizers.wordpiece_text import (  # noqa: F401  The reference has these names here too.
    BasicTokenizer,
    WordpieceTokenizer,
    _is_control,
    _is_punctuation,
    _is_whitespace,
    convert_to_unicode,
    load_vocab,
    strip_marks,
)

# A piece that is a single sign begins a word. So does a piece with characters other than these
# signs and letters.
_SIGNS = set('!"#$%&()*+,-./:;?@[\\]^_`{|}~')
# What SentencePiece folders of `transformers` replace by a quotation mark.
_QUOTES = re.compile("``|''")
# Prefixes of the Unicode names of letters in scripts without spaces between words. In such scripts,
# every piece counts as a word.
_WITHOUT_SPACES = (
    *("CJK ", "HIRAGANA ", "KATAKANA", "HALFWIDTH KATAKANA", "BOPOMOFO ", "YI ", "TANGUT "),
    *("THAI ", "LAO ", "KHMER ", "MYANMAR ", "TIBETAN ", "TAI ", "NEW TAI ", "JAVANESE "),
    "BALINESE ",
)
# Most rows of a small table of embeddings that no token uses. Published tables are padded to a
# multiple of 8, and one has 1,000 rows more than its vocabulary.
_UNUSED_ROWS = 1024
# If a smaller part of the pieces can never be produced, the tokenizer fits the vocabulary.
_IMPOSSIBLE = 0.01


def printable_text(text: str | bytes) -> str:
    """Returns a printable form of a text; in Python 3 the same as `convert_to_unicode`."""
    return convert_to_unicode(text)


def convert_by_vocab(vocab: Mapping, items: Iterable) -> list:
    """Looks up every item in a vocabulary."""
    return [vocab[item] for item in items]


def convert_tokens_to_ids(vocab: Mapping[str, int], tokens: Iterable[str]) -> list[int]:
    """Returns the ids of tokens."""
    return convert_by_vocab(vocab, tokens)


def convert_ids_to_tokens(inv_vocab: Mapping[int, str], ids: Iterable[int]) -> list[str]:
    """Returns the tokens of ids."""
    return convert_by_vocab(inv_vocab, ids)


def whitespace_tokenize(text: str) -> list[str]:
    """Splits a text at white space."""
    return text.split()


class FullTokenizer:
    """A tokenizer for SentencePiece if a model is given, otherwise for WordPiece.

    Attributes:
      vocab, inv_vocab: maps from token to id and from id to token.
      do_lower_case: whether `normalize` and `encode` lower-case text.
      normalization: how they change text, including `do_lower_case`.
      sp_model: the `SentencePieceProcessor`, or None for WordPiece.
    """

    def __init__(self, vocab_file, do_lower_case=True, spm_model_file=None, **normalization):
        """Loads the SentencePiece model, or the WordPiece vocabulary if there is no model.

        `normalization` has further fields of `Normalization`.

        Raises a `UserError` if the file is missing or invalid, or neither file is given.
        """
        self.normalization = Normalization.of({"do_lower_case": do_lower_case, **normalization})
        self.sp_model = None
        self._file = spm_model_file or vocab_file
        self._rules = rules = TextRules.parse(self.normalization.tokenizer_rules)
        if spm_model_file:
            self.sp_model, pieces = _load_sentencepiece(spm_model_file)
            self.vocab = {piece: i for i, piece in enumerate(pieces)}
        elif vocab_file:
            self.vocab = load_vocab(vocab_file)
            longest = rules.longest_word if rules else LONGEST_WORD
            self.wordpiece_tokenizer = WordpieceTokenizer({**self.vocab}, "[UNK]", longest)
        else:
            raise UserError("a tokenizer needs a SentencePiece model or a vocabulary file")
        self._quotes = bool(spm_model_file and rules and rules.quotes)
        self._to_find = rules.ids_in(self.vocab, self._file) if rules else {}
        self.vocab |= self._to_find
        self.inv_vocab = {v: k for k, v in self.vocab.items()}

    @classmethod
    def from_scratch(cls, vocab_file, do_lower_case, spm_model_file):
        """Makes a tokenizer in the same way as the constructor."""
        return cls(vocab_file, do_lower_case, spm_model_file)

    @classmethod
    def of(cls, files: Mapping[str, Any], normalization: Mapping[str, Any]) -> FullTokenizer:
        """Makes a tokenizer from its files by flag and fields of `Normalization`; see `check`."""
        values, pieces = Normalization.of(normalization)._asdict(), files.get("spm_model_file")
        tokenizer = cls(files.get("vocab_file"), spm_model_file=pieces, **values)
        tokenizer.check()
        return tokenizer

    @property
    def do_lower_case(self) -> bool:
        """Returns whether text is lower-cased; may be set, as on a copy of a tokenizer."""
        return self.normalization.do_lower_case

    @do_lower_case.setter
    def do_lower_case(self, value: bool) -> None:
        self.normalization = self.normalization._replace(do_lower_case=value)
        for name in ("_added", "_aligner", "_word_aligner"):
            self.__dict__.pop(name, None)

    @property
    def is_wordpiece(self) -> bool:
        """Returns whether the pieces come from a vocabulary and not from a SentencePiece model."""
        return self.sp_model is None

    @property
    def size(self) -> int:
        """Returns the number of tokens; all ids are below it."""
        return len(self.vocab)

    @functools.cached_property
    def sha256(self) -> str:
        """Returns the SHA-256 hash of the SentencePiece model or the vocabulary, in hexadecimal."""
        if self.sp_model:
            return hashlib.sha256(self.sp_model.serialized_model_proto()).hexdigest()
        return hashlib.sha256("\n".join(self.vocab).encode()).hexdigest()

    @property
    def cls_id(self) -> int:
        """Returns the id of [CLS]; this and the next ones raise a `UserError` if it is missing."""
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
        """Returns the id of padding."""
        return self._special_id("<pad>" if self.sp_model else "[PAD]")

    @property
    def unk_id(self) -> int:
        """Returns the id of unknown tokens."""
        return self.sp_model.unk_id() if self.sp_model else self._special_id("[UNK]")

    def _special_id(self, piece: str) -> int:
        if piece not in self.vocab:
            hint = "use a file from ALBERT or BERT"
            if self.is_wordpiece and "<unk>" in self.vocab:
                hint = "it belongs to a SentencePiece model; pass that model with --spm_model_file"
            raise UserError(f"{self._file} has no piece {piece}; {hint}")
        return self.vocab[piece]

    @property
    def basic_tokenizer(self) -> BasicTokenizer:
        """Returns the tokenizer that splits text into words for WordPiece."""
        lower, strips, _, chinese, rules = self.normalization
        return BasicTokenizer(lower, strips, chinese, TextRules.parse(rules))

    def check(self) -> None:
        """Warns if the normalization does not fit the pieces.

        Raises a `UserError` if [CLS], [SEP] or the unknown token is missing, or if a flag is for
        the other kind of tokenizer.
        """
        _ = self.cls_id, self.sep_id, self.unk_id
        name = "keep_accents" if self.is_wordpiece else "strip_accents"
        if name in self.normalization.recorded():
            raise UserError(
                f"--{name}={str(getattr(self.normalization, name)).lower()} does not work with "
                f"{self._file}: --strip_accents is for WordPiece, --keep_accents for SentencePiece"
            )
        if mismatch := self._mismatch():
            tf.logging.warning("%s %s", self._file, mismatch)

    def check_size(self, vocab_size: int, config_file: str) -> None:
        """Raises a `UserError` if there are more tokens than a configuration says, or far fewer.

        A table of embeddings may have rows that no token uses; a warning counts them.
        """
        sizes = f"{self.size} pieces, but {config_file} has a vocab_size of {vocab_size}"
        most_unused = max(_UNUSED_ROWS, vocab_size // 8)
        if not 0 <= vocab_size - self.size <= most_unused:
            raise UserError(f"{self._file} has {sizes}: both files must belong to the same model")
        if self.size < vocab_size:
            tf.logging.warning("%s has %s: the other rows are not used", self._file, sizes)

    def _mismatch(self) -> str | None:
        """Returns a message if the normalization does not fit the pieces, otherwise None."""
        words = [piece.removeprefix("##").lstrip("▁") for piece in self.vocab if piece[:1] != "["]
        lower, keeps = self.normalization.do_lower_case, self.normalization.keep_accents
        capitals = [word for word in words if word != word.lower()]
        if lower and len(capitals) > _IMPOSSIBLE * len(words):
            return (
                f"is cased: {len(capitals)} of its {len(words)} pieces have capitals, such as "
                f"{capitals[0]}, and never match text that --do_lower_case lower-cases; pass "
                "--do_lower_case=false"
            )
        changed = []
        if self.is_wordpiece and self.basic_tokenizer.strips_marks:
            changed, remedy = [w for w in words if strip_marks(w) != w], "--strip_accents=false"
        elif not self.is_wordpiece and not keeps:
            changed = [w for w in words if not w.isascii() and preprocess_text(w, False) != w]
            remedy = "--keep_accents=true"
        if len(changed) > _IMPOSSIBLE * len(words):
            return (
                f"keeps accents: {len(changed)} of its {len(words)} pieces, such as {changed[0]}, "
                f"never match text whose letters are decomposed and lose their marks; pass {remedy}"
            )
        return None

    def begins_word(self, piece: str) -> bool:
        """Returns whether a piece begins a word, for whole-word masking."""
        if self.is_wordpiece:
            return not piece.startswith("##")
        inside = all(char in _SIGNS or _is_letter_inside(char) for char in piece)
        return piece[:1] in ("▁", "<") or piece in _SIGNS or not inside

    def normalize(self, text: str) -> str:
        """Prepares a text for `tokenize`; for WordPiece, this only strips white space."""
        if self.sp_model is None:
            return text.strip()
        lower, keep = self.normalization.do_lower_case, self.normalization.keep_accents
        text = _QUOTES.sub('"', text) if self._quotes else text
        if not self._to_find:
            return preprocess_text(text, lower=lower, keep_accents=keep)
        parts = [
            preprocess_text(text[start:end], lower=lower, keep_accents=keep)
            if number is None
            else self.inv_vocab[number]
            for start, end, number in self._added.split(text)
        ]
        return " ".join(filter(None, parts))

    def encode(self, texts: Iterable[str], normalized: bool = False) -> list[list[int]]:
        """Returns the ids of each text, which are those of `tokenize(normalize(text))`.

        Many texts at a time are faster. `normalized` is whether `normalize` returned the texts,
        because normalizing again may change them. Raises a `UserError` if there is no [UNK].
        """
        texts = list(texts)
        if not self._to_find:
            return self._encode(texts, normalized)
        split = [list(self._added.split(text)) for text in texts]
        between = [
            text[start:end]
            for text, parts in zip(texts, split, strict=True)
            for start, end, number in parts
            if number is None
        ]
        encoded = iter(self._encode(between, normalized))
        return [
            [i for *_, number in parts for i in (next(encoded) if number is None else [number])]
            for parts in split
        ]

    def _encode(self, texts: list[str], normalized: bool) -> list[list[int]]:
        """Does the same for texts without added tokens."""
        if self.sp_model is None:
            return [self._word_aligner.ids(text) for text in texts]
        texts = [text.strip() if normalized else self.normalize(text) for text in texts]
        quick = self.sp_model.encode(texts, num_threads=1)
        return [
            ids if self._need_care.isdisjoint(ids) else encode_ids(self.sp_model, text)
            for ids, text in zip(quick, texts, strict=True)
        ]

    @functools.cached_property
    def _need_care(self) -> set[int]:
        """Returns ids of pieces that the comma rule may split, including the unknown piece."""
        return {self.unk_id, *(i for piece, i in self.vocab.items() if ends_in_digit_comma(piece))}

    def encode_with_offsets(self, text: str) -> Tokens:
        """Returns the tokens of a text, as `encode` does, with their positions in the text.

        Raises a `UserError` if the SentencePiece model has byte fallback, or there is no [UNK].
        """
        parts = list(self._added.split(text)) if self._to_find else []
        if all(number is None for *_, number in parts):
            return self._align(text)
        joined, first_word = list[np.ndarray](), 0
        for start, end, number in parts:
            if number is None:
                one = self._align(text[start:end])
                joined.append(np.array([one.ids, one.starts + start, one.ends + start]))
                first_word = first_word if len(joined) > 1 else one.first_word
            else:
                joined.append(np.array([[number], [start], [end - 1]]))
        ids, starts, ends = np.concatenate(joined, axis=1).astype(np.int32)
        return Tokens(ids, starts, ends, first_word)

    def _align(self, text: str) -> Tokens:
        """Does the same for a text without added tokens."""
        seconds = [match.end() - 1 for match in _QUOTES.finditer(text)] if self._quotes else []
        if not seconds:
            return self._aligner.tokenize(text)
        tokens = self._aligner.tokenize(_QUOTES.sub('"', text))
        # The positions in the text of the characters that are left, and of the end.
        origin = np.delete(np.arange(len(text) + 1, dtype=np.int32), seconds)
        starts, ends = origin[tokens.starts], origin[tokens.ends + 1] - 1
        return dataclasses.replace(tokens, starts=starts, ends=ends)

    @functools.cached_property
    def _added(self) -> AddedTokens:
        lower, keep = self.normalization.do_lower_case, self.normalization.keep_accents
        if self.is_wordpiece:
            return AddedTokens(self._rules, self._to_find, self.basic_tokenizer.normalize)
        prepare = functools.partial(preprocess_text, lower=lower, keep_accents=keep)
        return AddedTokens(self._rules, self._to_find, lambda c: prepare(c, remove_space=False))

    @functools.cached_property
    def _aligner(self) -> Aligner | WordAligner:
        return Aligner(self.sp_model, self.normalization) if self.sp_model else self._word_aligner

    @functools.cached_property
    def _word_aligner(self) -> WordAligner:
        return WordAligner(self.basic_tokenizer, self.wordpiece_tokenizer, self.unk_id)

    def tokenize(self, text: str) -> list[str]:
        """Returns the pieces of a text; for SentencePiece, apply `preprocess_text` first.

        Raises a `UserError` if a WordPiece vocabulary has no [UNK].
        """
        if self.sp_model and not self._to_find:
            return encode_pieces(self.sp_model, text)
        return self.convert_ids_to_tokens(self.encode([text], normalized=True)[0])

    def convert_tokens_to_ids(self, tokens: Sequence[str | bytes]) -> list[int]:
        """Returns the ids of pieces; SentencePiece returns its unknown id for unknown pieces."""
        if self.sp_model:
            return [self.vocab.get(printable_text(token), self.unk_id) for token in tokens]
        return convert_by_vocab(self.vocab, tokens)

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """Returns the pieces of ids."""
        return [self.inv_vocab[int(i)] for i in ids]


def _load_sentencepiece(path: str) -> tuple[spm.SentencePieceProcessor, list[str]]:
    """Returns the model of a file, and its pieces in the order of their ids."""
    check_readable(path, "SentencePiece model")
    content = read_bytes(path)
    if tokenizer := parse_tokenizer(content, path):
        content = sentencepiece_model_of(tokenizer, path)
    model = spm.SentencePieceProcessor()
    try:
        model.LoadFromSerializedProto(content)
        pieces = model.id_to_piece([*range(model.get_piece_size())])
    # The pieces of a damaged model may not be UTF-8.
    except (RuntimeError, UnicodeDecodeError) as e:
        raise UserError(f"{path} is not a SentencePiece model") from e
    tf.logging.info("SentencePiece model %s: %d pieces", path, len(pieces))
    return model, pieces


def _is_letter_inside(char: str) -> bool:
    """Returns whether a character is a letter or mark of a script with spaces between words."""
    if unicodedata.category(char)[0] not in "LM":
        return False
    return not unicodedata.name(char, "").startswith(_WITHOUT_SPACES)
