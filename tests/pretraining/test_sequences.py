"""Rows of ids, against lists put together token by token."""

from __future__ import annotations

import numpy as np

from pretraining.documents import Documents
from pretraining.pairs import Pair
from pretraining.sequences import make_sequences

SEQ_LENGTH = 20


def random_pairs(count, num_tokens, seed):
    """Pairs that fit, wherever they are."""
    rng = np.random.default_rng(seed)
    pairs = []
    for _ in range(count):
        length_a, length_b = rng.integers(1, 10), rng.integers(1, 8)
        a, b = rng.integers(0, num_tokens - 10, 2)
        pairs.append(Pair(int(a), int(a + length_a), int(b), int(b + length_b), int(a > b)))
    return [Pair(0, 1, num_tokens - 16, num_tokens, 0), Pair(3, 19, 0, 1, 1), *pairs]


def test_rows(encoder):
    ids = np.random.default_rng(1).integers(5, encoder.tokenizer.size, 200).astype(np.int32)
    pairs = random_pairs(100, len(ids), seed=2)
    batch = make_sequences(pairs, Documents(ids, [], []), encoder, SEQ_LENGTH)
    layout = batch.layout
    for row, pair in enumerate(pairs):
        a, b = ids[pair.a_start : pair.a_end].tolist(), ids[pair.b_start : pair.b_end].tolist()
        tokens = [encoder.cls_id, *a, encoder.sep_id, *b, encoder.sep_id]
        padding = [0] * (SEQ_LENGTH - len(tokens))
        assert batch.ids[row].tolist() == tokens + padding
        assert batch.labels[row] == pair.label
        assert layout.lengths[row] == len(tokens)
        assert layout.is_real[row].tolist() == [True] * len(tokens) + padding
        second = [False] * (len(a) + 2) + [True] * (len(b) + 1)
        assert layout.in_second[row].tolist() == second + padding
        text = [False, *[True] * len(a), False, *[True] * len(b), False]
        assert layout.in_text[row].tolist() == text + padding


def test_words_begin_at_a_segment_or_where_tokens_say(encoder):
    ids = np.arange(5, 105, dtype=np.int32)
    batch = make_sequences(random_pairs(20, 100, 3), Documents(ids, [], []), encoder, SEQ_LENGTH)
    begins = batch.ids % 3 == 0
    starts = batch.layout.word_starts(begins)
    for row, layout_row in enumerate(batch.layout.in_text):
        for place in np.flatnonzero(layout_row):
            first_of_segment = not layout_row[place - 1]
            assert starts[row, place] == (first_of_segment or begins[row, place])
    assert not (starts & ~batch.layout.in_text).any()


def test_places_of_text_tokens(encoder):
    ids = np.arange(5, 105, dtype=np.int32)
    batch = make_sequences(random_pairs(20, 100, 4), Documents(ids, [], []), encoder, SEQ_LENGTH)
    rows, columns = np.nonzero(batch.layout.in_text)
    numbers = np.concatenate([np.arange(n) for n in batch.layout.in_text.sum(axis=1)])
    np.testing.assert_array_equal(batch.layout.text_number(rows, columns), numbers)
    np.testing.assert_array_equal(batch.layout.columns(rows, numbers), columns)
