"""Pairs of segments, and rows of their ids. The bytes of whole records: `test_shards.py`."""

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from albert.tasks.pretraining.pairs import PairMaker, PairOptions, SegmentPair, make_sequences
from albert.tasks.pretraining.text import Documents


def documents_of(*lengths: list[int]) -> Documents:
    """Returns documents whose sentences have these lengths; every token has a unique id."""
    flat = [length for document in lengths for length in document]
    ends = np.cumsum([len(document) for document in lengths]).tolist()
    bounds = [0, *np.cumsum(flat).tolist()]
    ranges = list(zip([0, *ends], ends, strict=False))
    return Documents(np.arange(bounds[-1], dtype=np.int32), bounds, ranges)


def maker(documents, max_seq_length=1003, random_next=False, seed=0):
    options = PairOptions(max_seq_length, short_seq_prob=0.0, random_next_sentence=random_next)
    return PairMaker(documents, options, random.Random(seed))


def test_half_of_the_pairs_have_a_random_second_segment():
    documents = documents_of([5, 6, 7], [8, 9], [3])
    pairs = [list(maker(documents, random_next=True, seed=seed).pairs(0)) for seed in range(400)]
    first = [own[0] for own in pairs]
    assert abs(sum(pair.label for pair in first) - 200) < 40
    for pairs_of_one in pairs:
        # All of the document's sentences occur; replaced ones are in a later pair.
        own = [pair[:2] if pair.label else (pair.a_start, pair.b_end) for pair in pairs_of_one]
        assert [start for start, _ in own] == [0, *(end for _, end in own[:-1])]
        assert own[-1][1] == 18
    starts = {pair.b_start for own in pairs for pair in own if pair.label}
    assert starts == {18, 26, 35}


def test_a_one_sentence_document_is_paired_with_another_and_the_only_one_with_itself():
    documents = documents_of([4], [5, 6])
    for seed in range(40):
        (pair,) = maker(documents, random_next=seed < 20, seed=seed).pairs(0)
        assert pair.label == 1 and pair[:2] == (0, 4)
        assert pair[2:4] in ((4, 15), (9, 15))

    documents = documents_of([10, 10, 10])
    for seed in range(20):
        for pair in maker(documents, max_seq_length=13, seed=seed).pairs(0):
            assert pair.label == 1
            assert pair.a_end <= pair.b_start or pair.b_end <= pair.a_start
    assert not list(maker(documents_of([10])).pairs(0))


def two_sentences(length_a, length_b, room, seed):
    """Returns a pair of two sentences, and their starts and ends, in the order of the pair."""
    documents = documents_of([length_a, length_b])
    pair = next(maker(documents, room + 3, seed=seed).pairs(0))
    sentences = (0, length_a), (length_a, length_a + length_b)
    return pair, *(sentences[::-1] if pair.label else sentences)


@given(st.integers(1, 39), st.integers(1, 60), st.integers(2, 40), st.integers(0, 999))
def test_long_pairs_are_truncated_as_in_a_loop(length_a, length_b, room, seed):
    """Token by token from the longer one, from the second if they are equal."""
    pair, first, second = two_sentences(min(length_a, room - 1), length_b, room, seed)
    a, b = first[1] - first[0], second[1] - second[0]
    while a + b > room:
        a, b = (a - 1, b) if a > b else (a, b - 1)
    assert (pair.a_end - pair.a_start, pair.b_end - pair.b_start) == (a, b)
    assert first[0] <= pair.a_start <= pair.a_end <= first[1]
    assert second[0] <= pair.b_start <= pair.b_end <= second[1]


SEQ_LENGTH = 20


def random_pairs(count, num_tokens, seed):
    rng = np.random.default_rng(seed)
    pairs = []
    for _ in range(count):
        length_a, length_b = rng.integers(1, 10), rng.integers(1, 8)
        a, b = rng.integers(0, num_tokens - 10, 2)
        pairs.append(SegmentPair(int(a), int(a + length_a), int(b), int(b + length_b), int(a > b)))
    return [SegmentPair(0, 1, num_tokens - 16, num_tokens, 0), SegmentPair(3, 19, 0, 1, 1), *pairs]


def test_rows_have_special_tokens_and_padding_and_words_begin_at_segments(tokenizer):
    ids = np.random.default_rng(1).integers(5, tokenizer.size, 200).astype(np.int32)
    pairs = random_pairs(100, len(ids), seed=2)
    batch = make_sequences(pairs, Documents(ids, [], []), tokenizer, SEQ_LENGTH)
    layout, begins = batch.layout, batch.ids % 3 == 0
    starts = layout.word_starts(begins)
    for row, pair in enumerate(pairs):
        a, b = ids[pair.a_start : pair.a_end].tolist(), ids[pair.b_start : pair.b_end].tolist()
        tokens = [tokenizer.cls_id, *a, tokenizer.sep_id, *b, tokenizer.sep_id]
        padding = [0] * (SEQ_LENGTH - len(tokens))
        assert batch.ids[row].tolist() == tokens + padding
        assert batch.labels[row] == pair.label
        assert layout.lengths[row] == len(tokens)
        assert layout.is_real[row].tolist() == [True] * len(tokens) + padding
        second = [False] * (len(a) + 2) + [True] * (len(b) + 1)
        assert layout.in_second[row].tolist() == second + padding
        text = [False, *[True] * len(a), False, *[True] * len(b), False]
        assert layout.in_text[row].tolist() == text + padding
        begins[row, [1, len(a) + 2]] = True
        assert starts[row].tolist() == (begins[row] & layout.in_text[row]).tolist()
