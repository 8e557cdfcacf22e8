"""Features of annotated texts, and spans from the model's outputs for them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert.prediction.session import Output
from albert.records import tf_example
from albert.records.sequences import (
    SEQUENCE_KEYS,
    TokenSequence,
    make_sequence,
    padded,
    positions_in_windows,
)
from albert.report.spans import Span
from albert.tasks.entities.annotations import AnnotatedText, spans_of_tags
from albert.tasks.entities.settings import CHARACTER, PIECE, WORD
from albert.tokenization import FullTokenizer

# The feature with the tag of a word at its first piece or of each piece, from 1, and 0 elsewhere.
TAG_IDS = "tag_ids"
# With a larger share of spans that begin or end inside words or pieces, smaller parts get tags.
_MANY_CUT = 0.05
Words = list[tuple[int, int]]
Windows = list[tuple[TokenSequence, np.ndarray]]


def characters_in(text: str) -> Words:
    """Returns the start and end of each character with its marks, without white space."""
    characters = Words()
    for position, character in enumerate(text):
        is_mark = unicodedata.category(character)[0] == "M"
        if is_mark and characters and characters[-1][1] == position:
            characters[-1] = characters[-1][0], position + 1
        elif not character.isspace():
            characters.append((position, position + 1))
    return characters


def decide_units(texts: Sequence[AnnotatedText], tokenizer: FullTokenizer) -> str:
    """Chooses what gets a tag in a training: words, unless many spans begin or end inside them."""
    total = sum(len(text.spans) for text in texts)
    if sum(text.cut(text.words) for text in texts) <= _MANY_CUT * total:
        return WORD
    pieces = (tokenizer.encode_with_offsets(text.text).pieces_in(text.text) for text in texts)
    cut = sum(map(AnnotatedText.cut, texts, pieces))
    return CHARACTER if cut > _MANY_CUT * total else PIECE


class Tagger(NamedTuple):
    """A converter of texts to inputs of a model that tags words, and of its outputs to spans.

    `tags` are those of `as_bioes`. `units` is what has a tag: each word, at its first piece, each
    piece, or each character.
    """

    tokenizer: FullTokenizer
    tags: Sequence[str]
    max_seq_length: int
    units: str = WORD

    @property
    def labels(self) -> list[str]:
        """Returns the labels of the entities that the tags mark."""
        return sorted({tag[2:] for tag in self.tags if tag != "O"})

    @property
    def spec(self) -> dict:
        """Returns the specification with which `tf.io.parse_example` reads a record."""
        keys = (*SEQUENCE_KEYS, TAG_IDS)
        return dict.fromkeys(keys, tf.io.FixedLenFeature([self.max_seq_length], tf.int64))

    def encode(self, text: str, words: Words) -> tuple[Words, Windows]:
        """Returns the parts of a text to tag, and windows with the positions of their tags."""
        windows, special_ids = Windows(), (self.tokenizer.cls_id, self.tokenizer.sep_id)
        room, is_apart = self.max_seq_length - 2, self.units == CHARACTER
        if is_apart:
            # No piece extends beyond a word.
            characters = characters_in(text)
            text = " ".join(text[start:end] for start, end in characters)
            words = [match.span() for match in re.finditer("[^ ]+", text)]
        tokens = self.tokenizer.encode_with_offsets(text)
        if self.units == PIECE:
            words = tokens.pieces_in(text)
        pieces, tagged = tokens.first_pieces(words)
        if is_apart:
            located = dict(zip(words, characters, strict=True))
            tagged = [located[word] for word in tagged]
        for start, positions in positions_in_windows(len(tokens.ids), room, pieces):
            ids = tokens.ids[start : start + room].tolist()
            windows.append((make_sequence(ids, [], *special_ids), positions - start + 1))
        return tagged, windows

    def records(self, texts: Sequence[AnnotatedText]) -> list[bytes]:
        """Returns the record of each window of texts."""
        records = list[bytes]()
        # A model of others may lack tags such as B-PER; only training reads the ids.
        ids = {tag: number for number, tag in enumerate(self.tags, start=1)}
        for text in texts:
            words, windows = self.encode(text.text, text.words)
            tags = iter(text._replace(words=words).tags())
            for sequence, positions in windows:
                tag_ids = np.zeros(self.max_seq_length, np.int64)
                tag_ids[positions] = [ids.get(next(tags), 0) for _ in positions]
                columns = *padded(sequence, self.max_seq_length), tag_ids.tolist()
                records.append(tf_example.serialize(dict(zip(self.spec, columns, strict=True))))
        return records

    def spans(
        self, texts: Iterable[tuple[str, Words]], outputs: Iterable[Output]
    ) -> Iterator[list[Span]]:
        """Yields the spans of each text, from the outputs for the windows of all texts in order."""
        rest = iter(outputs)
        for text, words in texts:
            tagged, windows = self.encode(text, words)
            tags, shares = list[str](), list[float]()
            for (_, positions), output in zip(windows, rest, strict=False):
                tags += [self.tags[tag] for tag in output["predictions"][positions]]
                shares += output["probabilities"][positions].tolist()
            yield [span for _, span in spans_of_tags(text, tagged, tags, shares)]
