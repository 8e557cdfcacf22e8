"""Blocks of text as token ids, with the places where sentences and documents begin."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from albert.tasks.pretraining.text import Block, read_lines
from albert.tokenization import FullTokenizer


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


def join_documents(first: Documents, second: Documents) -> Documents:
    """Returns the documents of both."""
    sentences, tokens = len(first.bounds) - 1, first.bounds[-1]
    return Documents(
        np.concatenate([first.ids, second.ids]),
        first.bounds + [bound + tokens for bound in second.bounds[1:]],
        first.ranges + [(a + sentences, b + sentences) for a, b in second.ranges],
    )


class Encoder:
    """A tokenizer as pretraining needs it.

    Attributes:
      tokenizer: the tokenizer.
      cls_id, sep_id, mask_id: ids of its special tokens.
      begins_word: bool [size], whether a token begins a word.
    """

    def __init__(self, tokenizer: FullTokenizer):
        """Raises a `UserError` if the vocabulary lacks a special token."""
        self.tokenizer = tokenizer
        self.cls_id, self.sep_id = tokenizer.cls_id, tokenizer.sep_id
        self.mask_id = tokenizer.mask_id
        pieces = tokenizer.convert_ids_to_tokens(range(tokenizer.size))
        self.begins_word = np.array(list(map(tokenizer.begins_word, pieces)))

    def documents(self, block: Block) -> Documents:
        """Returns the documents of a block; sentences and documents without any token are left out.

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
        """Yields the ids of each document's sentences."""
        texts = list(map(self.tokenizer.normalize, lines))
        encoded = iter(self.tokenizer.encode(filter(None, texts), normalized=True))
        for is_text, group in itertools.groupby(texts, bool):
            if is_text:
                sentences = [ids for ids in itertools.islice(encoded, len(list(group))) if ids]
                if sentences:
                    yield sentences
