"""Pretraining records the plain way: the whole text in memory, one token at a time.

Like the reference's `create_pretraining_data.py`, it makes one pass over the text for each
duplicate; `make bench NAME=pretraining_data` compares with it.
"""

import random
from collections.abc import Iterator, Sequence

import tensorflow.compat.v1 as tf

from albert.tokenization import FullTokenizer, preprocess_text

MAX_SEQ_LENGTH, MAX_PREDICTIONS, MASKED_LM_PROB, SHORT_SEQ_PROB, NGRAM = 512, 20, 0.15, 0.1, 3
_SIGNS = set('!"#$%&()*+,-./:;?@[\\]^_`{|}~')
_INSIDE_WORDS = set("abcdefghijklmnopqrstuvwxyz") | _SIGNS

# The tokens of each sentence.
Document = list[list[str]]


def convert(input_file: str, output_file: str, tokenizer: FullTokenizer, dupe_factor: int) -> int:
    """Writes the records of a text file; returns their number."""
    rng = random.Random(12345)
    documents = read_documents(input_file, tokenizer)
    rng.shuffle(documents)
    vocabulary = list(tokenizer.vocab)
    instances = []
    for _ in range(dupe_factor):
        for number in range(len(documents)):
            for first, second, swapped in pairs_of(documents, number, rng):
                instances.append(instance_of(first, second, swapped, vocabulary, rng))
    rng.shuffle(instances)
    with tf.io.TFRecordWriter(output_file) as writer:
        for instance in instances:
            writer.write(serialized(instance, tokenizer))
    return len(instances)


def read_documents(path: str, tokenizer: FullTokenizer) -> list[Document]:
    documents = [[]]
    with open(path, encoding="utf-8") as file:
        for line in file:
            text = preprocess_text(line, lower=True)
            if not text:
                documents.append([])
            elif tokens := tokenizer.tokenize(text):
                documents[-1].append(tokens)
    return [document for document in documents if document]


def pairs_of(
    documents: Sequence[Document], number: int, rng: random.Random
) -> Iterator[tuple[list[str], list[str], bool]]:
    """Yields the segments of one document's sequences, and whether they are swapped."""
    document, target = documents[number], MAX_SEQ_LENGTH - 3
    if rng.random() < SHORT_SEQ_PROB:
        target = rng.randint(2, target)
    chunk, length = [], 0
    for position, sentence in enumerate(document):
        chunk.append(sentence)
        length += len(sentence)
        if position < len(document) - 1 and length < target:
            continue
        middle = rng.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
        first, second = sum(chunk[:middle], []), sum(chunk[middle:], [])
        if len(chunk) == 1:
            yield first, random_tokens(documents, number, target - len(first), rng), True
        elif rng.random() < 0.5:
            yield second, first, True
        else:
            yield first, second, False
        chunk, length = [], 0


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
) -> dict[str, list]:
    """Returns one sequence of two segments before it is padded, by the keys of a record."""
    while len(first) + len(second) > MAX_SEQ_LENGTH - 3:
        longer = first if len(first) > len(second) else second
        del longer[0 if rng.random() < 0.5 else -1]
    tokens = ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
    masked, positions, boundary = mask(tokens, vocabulary, rng)
    return {
        "input_ids": masked,
        "input_mask": [1] * len(tokens),
        "segment_ids": [0] * (len(first) + 2) + [1] * (len(second) + 1),
        "token_boundary": boundary,
        "masked_lm_positions": positions,
        "masked_lm_ids": [tokens[position] for position in positions],
        "masked_lm_weights": [1.0] * len(positions),
        "next_sentence_labels": [int(swapped)],
    }


def begins_word(piece: str) -> bool:
    return piece[0] in "▁<" or piece in _SIGNS or any(c not in _INSIDE_WORDS for c in piece.lower())


def mask(tokens: Sequence[str], vocabulary: Sequence[str], rng: random.Random) -> tuple:
    """Masks runs of words; returns tokens, masked positions, and word starts."""
    words, boundary = [], [0] * len(tokens)
    for position, token in enumerate(tokens):
        if token in ("[CLS]", "[SEP]"):
            boundary[position] = 1
            continue
        boundary[position] = int(begins_word(token))
        if words and not boundary[position]:
            words[-1].append(position)
        else:
            words.append([position])
    most = min(MAX_PREDICTIONS, max(1, round(len(tokens) * MASKED_LM_PROB)))
    sizes = list(range(1, NGRAM + 1))
    odds = [1 / size for size in sizes]
    runs = [[words[start : start + size] for size in sizes] for start in range(len(words))]
    rng.shuffle(runs)
    masked, covered = list(tokens), set()
    for run in runs:
        if len(covered) >= most:
            break
        size = rng.choices(sizes, odds)[0]
        positions = sum(run[size - 1], [])
        while size > 1 and len(covered) + len(positions) > most:
            size -= 1
            positions = sum(run[size - 1], [])
        if len(covered) + len(positions) > most or covered.intersection(positions):
            continue
        for position in positions:
            covered.add(position)
            if rng.random() < 0.8:
                masked[position] = "[MASK]"
            elif rng.random() < 0.5:
                masked[position] = rng.choice(vocabulary)
    return masked, sorted(covered), boundary


def serialized(instance: dict[str, list], tokenizer: FullTokenizer) -> bytes:
    """Returns a padded record."""
    features = {}
    for key, values in instance.items():
        if key in ("input_ids", "masked_lm_ids"):
            values = tokenizer.convert_tokens_to_ids(values)
        if key != "next_sentence_labels":
            length = MAX_PREDICTIONS if key.startswith("masked") else MAX_SEQ_LENGTH
            values = values + [0] * (length - len(values))
        if key == "masked_lm_weights":
            features[key] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        else:
            features[key] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
