"""Blocks of text as token ids, with the places where sentences and documents begin."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

import tokenization
from pretraining.text import Block, read_lines
from runtime.errors import UserError

# A sign alone begins a word, and so does a piece with anything but signs and these letters.
_SIGNS = set('!"#$%&()*+,-./:;?@[\\]^_`{|}~')
_LETTERS = set("abcdefghijklmnopqrstuvwxyz")
_SPECIAL_TOKENS = ("[CLS]", "[SEP]", "[MASK]")


class Documents(NamedTuple):
    """Documents of sentences of tokens.

    Attributes:
      ids: int32 [T], the tokens of all sentences one after the other.
      bounds: sentence i is `ids[bounds[i] : bounds[i + 1]]`; none is empty.
      ranges: the first sentence of each document, and the one after its last.
    """

    ids: np.ndarray
    bounds: list[int]
    ranges: list[tuple[int, int]]


def joined(first: Documents, second: Documents) -> Documents:
    """The documents of both."""
    sentences, tokens = len(first.bounds) - 1, first.bounds[-1]
    return Documents(
        np.concatenate([first.ids, second.ids]),
        first.bounds + [bound + tokens for bound in second.bounds[1:]],
        first.ranges + [(a + sentences, b + sentences) for a, b in second.ranges],
    )


class Encoder:
    """A tokenizer as pretraining needs it.

    Attributes:
      cls_id, sep_id, mask_id: ids of the special tokens.
      size: number of tokens.
      sha256: of the SentencePiece model or the vocabulary.
      begins_word: bool [size], whether a token begins a word.
    """

    def __init__(self, tokenizer: tokenization.FullTokenizer, do_lower_case: bool):
        """Raises a `UserError` if the vocabulary lacks a special token."""
        # In place of what a vocabulary does not have; a model has a piece of its own for that.
        unknown = () if tokenizer.sp_model else ("[UNK]",)
        missing = [t for t in (*_SPECIAL_TOKENS, *unknown) if t not in tokenizer.vocab]
        if missing:
            raise UserError(f"the vocabulary has no {' and no '.join(missing)}, which ALBERT needs")
        self.cls_id, self.sep_id, self.mask_id = (tokenizer.vocab[t] for t in _SPECIAL_TOKENS)
        self.size = len(tokenizer.vocab)
        model = tokenizer.sp_model and tokenizer.sp_model.serialized_model_proto()
        content = model or "\n".join(tokenizer.vocab).encode()
        self.sha256 = hashlib.sha256(content).hexdigest()
        begins = _begins_word if tokenizer.sp_model else _begins_wordpiece_word
        self.begins_word = np.array([begins(tokenizer.inv_vocab[i]) for i in range(self.size)])
        self._tokenizer = tokenizer
        self._lower = do_lower_case
        # A text with one of these may need the comma rule of `encode_ids`; other texts do not. What
        # an unknown token stands for does not show in its id.
        self._need_care = {
            i
            for token, i in tokenizer.vocab.items()
            if token == "<unk>" or tokenization.ends_in_digit_comma(token)
        }

    def documents(self, block: Block) -> Documents:
        """The documents of a block; sentences and documents without any token are left out.

        Raises:
          UserError: the text is not UTF-8.
        """
        sentences, lengths = [], []
        for span in block:
            for document in self._encoded_documents(read_lines(span)):
                sentences += document
                lengths.append(len(document))
        ends = list(itertools.accumulate(lengths))
        bounds = list(itertools.accumulate(map(len, sentences), initial=0))
        ids = np.fromiter(itertools.chain.from_iterable(sentences), np.int32, bounds[-1])
        return Documents(ids, bounds, list(itertools.pairwise([0, *ends])))

    def _encoded_documents(self, lines: Sequence[str]) -> Iterator[list[list[int]]]:
        """The ids of each document's sentences."""
        texts = list(map(self._normalized, lines))
        encoded = iter(self._encoded([text for text in texts if text]))
        for is_text, group in itertools.groupby(texts, bool):
            if is_text:
                sentences = [ids for ids in itertools.islice(encoded, len(list(group))) if ids]
                if sentences:
                    yield sentences

    def _normalized(self, line: str) -> str:
        if self._tokenizer.sp_model:
            return tokenization.preprocess_text(line, lower=self._lower)
        return line.strip()

    def _encoded(self, texts: list[str]) -> list[list[int]]:
        model = self._tokenizer.sp_model
        if not model:
            tokenize, look_up = self._tokenizer.tokenize, self._tokenizer.convert_tokens_to_ids
            return [look_up(tokenize(text)) for text in texts]
        careless = model.encode(texts, num_threads=1)
        return [
            ids if self._need_care.isdisjoint(ids) else tokenization.encode_ids(model, text)
            for ids, text in zip(careless, texts, strict=True)
        ]


def _begins_word(piece: str) -> bool:
    """Whether a SentencePiece piece begins a word, as the reference has it."""
    inside = (_LETTERS | _SIGNS).issuperset(piece.lower())
    return piece[:1] in ("▁", "<") or piece in _SIGNS or not inside


def _begins_wordpiece_word(piece: str) -> bool:
    return not piece.startswith("##")
