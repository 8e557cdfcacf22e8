"""Pretraining records the plain way: the whole text in memory, one token at a time.

Like the reference's `create_pretraining_data.py`, it makes one pass over the text for each
duplicate; `make bench NAME=pretraining_data` compares with it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from albert.tokenization import FullTokenizer, preprocess_text

MAX_SEQ_LENGTH, MAX_PREDICTIONS, MASKED_LM_PROB, SHORT_SEQ_PROB, NGRAM = 512, 20, 0.15, 0.1, 3
INSIDE_WORDS = set('abcdefghijklmnopqrstuvwxyz!"#$%&()*+,-./:;?@[\\]^_`{|}~')
SIGNS = set('!"#$%&()*+,-./:;?@[\\]^_`{|}~')

Document = list[list[str]]


class Instance(NamedTuple):
    """A training sequence before it is padded."""

    tokens: list[str]
    segment_ids: list[int]
    token_boundary: list[int]
    positions: list[int]
    labels: list[str]
    is_swapped: bool


def convert(input_file: str, output_file: str, tokenizer: FullTokenizer, dupe_factor: int) -> int:
    """Writes the records of a text file; returns their number."""
    rng = random.Random(12345)
    documents = read_documents(input_file, tokenizer)
    rng.shuffle(documents)
    vocabulary = list(tokenizer.vocab)
    instances = []
    for _ in range(dupe_factor):
        for number in range(len(documents)):
            instances += instances_of(documents, number, vocabulary, rng)
    rng.shuffle(instances)
    with tf.io.TFRecordWriter(output_file) as writer:
        for instance in instances:
            writer.write(serialized(instance, tokenizer))
    return len(instances)


def read_documents(path: str, tokenizer: FullTokenizer) -> list[Document]:
    """Returns the tokens of the sentences of all documents."""
    documents = [[]]
    with open(path, encoding="utf-8") as file:
        for line in file:
            text = preprocess_text(line, lower=True)
            if not text:
                documents.append([])
            elif tokens := tokenizer.tokenize(text):
                documents[-1].append(tokens)
    return [document for document in documents if document]


def instances_of(
    documents: Sequence[Document], number: int, vocabulary: Sequence[str], rng: random.Random
) -> list[Instance]:
    """Returns the sequences of one document."""
    document = documents[number]
    target = MAX_SEQ_LENGTH - 3
    if rng.random() < SHORT_SEQ_PROB:
        target = rng.randint(2, target)
    instances, chunk, length = [], [], 0
    for place, sentence in enumerate(document):
        chunk.append(sentence)
        length += len(sentence)
        if place < len(document) - 1 and length < target:
            continue
        middle = rng.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
        first = [token for part in chunk[:middle] for token in part]
        second = [token for part in chunk[middle:] for token in part]
        swapped = len(chunk) == 1
        if swapped:
            second = random_tokens(documents, number, target - len(first), rng)
        elif rng.random() < 0.5:
            swapped = True
            first, second = second, first
        instances.append(instance_of(first, second, swapped, vocabulary, rng))
        chunk, length = [], 0
    return instances


def random_tokens(
    documents: Sequence[Document], number: int, target: int, rng: random.Random
) -> list[str]:
    """Returns tokens of another document."""
    for _ in range(10):
        other = rng.randrange(len(documents))
        if other != number:
            break
    tokens = []
    for sentence in documents[other][rng.randrange(len(documents[other])) :]:
        tokens += sentence
        if len(tokens) >= target:
            break
    return tokens


def instance_of(
    first: list[str], second: list[str], swapped: bool, vocabulary: Sequence[str], rng
) -> Instance:
    """Returns one sequence of two segments."""
    while len(first) + len(second) > MAX_SEQ_LENGTH - 3:
        longer = first if len(first) > len(second) else second
        if rng.random() < 0.5:
            del longer[0]
        else:
            longer.pop()
    tokens = ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
    segment_ids = [0] * (len(first) + 2) + [1] * (len(second) + 1)
    masked, positions, labels, boundary = mask(tokens, vocabulary, rng)
    return Instance(masked, segment_ids, boundary, positions, labels, swapped)


def begins_word(piece: str) -> bool:
    """Returns whether a piece is the first of a word."""
    return piece[0] in "▁<" or piece in SIGNS or any(c not in INSIDE_WORDS for c in piece.lower())


def mask(tokens: Sequence[str], vocabulary: Sequence[str], rng: random.Random) -> tuple:
    """Masks runs of words; returns tokens, masked positions, original tokens, and word starts."""
    words, boundary = [], [0] * len(tokens)
    for place, token in enumerate(tokens):
        if token in ("[CLS]", "[SEP]"):
            boundary[place] = 1
            continue
        boundary[place] = int(begins_word(token))
        if words and not boundary[place]:
            words[-1].append(place)
        else:
            words.append([place])
    wanted = min(MAX_PREDICTIONS, max(1, round(len(tokens) * MASKED_LM_PROB)))
    sizes = list(range(1, NGRAM + 1))
    odds = [1 / size for size in sizes]
    runs = [[words[start : start + size] for size in sizes] for start in range(len(words))]
    rng.shuffle(runs)
    masked, covered = list(tokens), set()
    for run in runs:
        if len(covered) >= wanted:
            break
        size = rng.choices(sizes, odds)[0]
        places = sum(run[size - 1], [])
        while size > 1 and len(covered) + len(places) > wanted:
            size -= 1
            places = sum(run[size - 1], [])
        if len(covered) + len(places) > wanted or any(place in covered for place in places):
            continue
        for place in places:
            covered.add(place)
            if rng.random() < 0.8:
                masked[place] = "[MASK]"
            elif rng.random() < 0.5:
                masked[place] = rng.choice(vocabulary)
    positions = sorted(covered)
    return masked, positions, [tokens[place] for place in positions], boundary


def serialized(instance: Instance, tokenizer: FullTokenizer) -> bytes:
    """Returns a padded record."""
    length = len(instance.tokens)
    padding = [0] * (MAX_SEQ_LENGTH - length)
    unused = MAX_PREDICTIONS - len(instance.positions)
    integers = {
        "input_ids": tokenizer.convert_tokens_to_ids(instance.tokens) + padding,
        "input_mask": [1] * length + padding,
        "segment_ids": instance.segment_ids + padding,
        "token_boundary": instance.token_boundary + padding,
        "masked_lm_positions": instance.positions + [0] * unused,
        "masked_lm_ids": tokenizer.convert_tokens_to_ids(instance.labels) + [0] * unused,
        "next_sentence_labels": [int(instance.is_swapped)],
    }
    features = {
        key: tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        for key, values in integers.items()
    }
    weights = [1.0] * len(instance.positions) + [0.0] * unused
    features["masked_lm_weights"] = tf.train.Feature(float_list=tf.train.FloatList(value=weights))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
