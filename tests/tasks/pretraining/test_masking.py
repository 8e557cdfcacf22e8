"""Masks: the choice of words, compared with a loop, and the tokens that replace them."""

import collections

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert.tasks.pretraining.masking import Masker, MaskingOptions, Words, choose_ngrams
from albert.tasks.pretraining.pairs import Layout

MASK, VOCAB_SIZE = 4, 1000


def choose_in_a_loop(sizes_of_words, order, sizes, budget, taken):
    """Applies the same rule to one row, a word at a time."""
    chosen = set()
    left = budget
    for first, size in zip(order, sizes, strict=False):
        if left <= 0:
            break
        run = list(range(first, min(first + size, len(sizes_of_words))))
        while run and sum(sizes_of_words[word] for word in run) > left:
            run.pop()
        if run and not any(word in chosen or word in taken for word in run):
            chosen.update(run)
            left -= sum(sizes_of_words[word] for word in run)
    return chosen


@given(st.data())
def test_words_are_chosen_as_in_a_loop(data):
    ngram = data.draw(st.integers(1, 4))
    row = st.lists(st.integers(1, 5), min_size=1, max_size=12)
    texts = data.draw(st.lists(row, min_size=1, max_size=5))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    width = max(map(len, texts))
    begins = np.zeros((len(texts), width + ngram), int)
    order = np.zeros((len(texts), width), int)
    for row, text in enumerate(texts):
        begins[row] = sum(text)
        begins[row, : len(text)] = np.cumsum([0, *text[:-1]])
        order[row, : len(text)] = rng.permutation(len(text))
    words = Words(np.array(list(map(len, texts))), begins)
    sizes = rng.integers(1, ngram + 1, order.shape)
    budget = rng.integers(0, 15, len(texts))
    taken = rng.random(begins.shape) < 0.15
    before = taken.copy()
    chosen = choose_ngrams(words, order, sizes, budget, taken)
    for row, text in enumerate(texts):
        own_order, own_taken = order[row, : len(text)].tolist(), np.flatnonzero(before[row])
        expected = choose_in_a_loop(
            text, own_order, sizes[row].tolist(), budget[row], set(own_taken.tolist())
        )
        assert set(np.flatnonzero(chosen[row]).tolist()) == expected
    np.testing.assert_array_equal(taken, before | chosen)


def rows_of(count, length_a, length_b, seq_length):
    """Returns rows of random tokens, of which about every third begins a word."""
    rng = np.random.default_rng(5)
    layout = Layout(np.full(count, length_a), np.full(count, length_b), seq_length)
    ids = rng.integers(5, VOCAB_SIZE, (count, seq_length)).astype(np.int32) * layout.in_text
    ids[:, 0], ids[:, length_a + 1], ids[:, length_a + length_b + 2] = 2, 3, 3
    return ids, layout, rng.random((count, seq_length)) < 0.35


def mask(options, ids, layout, begins_word=None):
    """Returns the masked batch; without `begins_word`, every token is a word."""
    if begins_word is None:
        begins_word = np.ones(ids.shape, bool)
    masker = Masker(options, MASK, VOCAB_SIZE)
    return masker.mask(ids, layout, begins_word, np.random.default_rng(0))


@pytest.mark.parametrize("permutation", [False, True])
@pytest.mark.parametrize("whole_words", [False, True])
def test_masks_cover_words_and_labels_are_the_originals(permutation, whole_words):
    ids, layout, begins_word = rows_of(300, 20, 30, 64)
    options = MaskingOptions(6, 0.15, do_whole_word_mask=whole_words, do_permutation=permutation)
    masked = mask(options, ids, layout, begins_word)
    starts = layout.word_starts(begins_word) if whole_words else layout.in_text
    word_numbers = np.cumsum(starts, axis=1)
    assert masked.positions.shape == masked.labels.shape == (300, 12 if permutation else 6)
    moved = 0
    for row, count in enumerate(masked.counts):
        columns = masked.positions[row, :count]
        assert (np.diff(columns) > 0).all() and layout.in_text[row, columns].all()
        np.testing.assert_array_equal(masked.labels[row, :count], ids[row, columns])
        assert not masked.positions[row, count:].any() and not masked.labels[row, count:].any()
        others = np.setdiff1d(np.arange(64), columns)
        np.testing.assert_array_equal(masked.ids[row, others], ids[row, others])
        numbers = set(word_numbers[row, columns].tolist())
        in_words = np.isin(word_numbers[row], list(numbers)) & layout.in_text[row]
        np.testing.assert_array_equal(np.flatnonzero(in_words), columns)
        # Permuted tokens come from other positions; [MASK] and random tokens are at most six.
        now, before = masked.ids[row, columns], ids[row, columns]
        foreign = ~np.isin(now, before)
        assert foreign.sum() <= 6
        moved += ((now != before) & ~foreign).sum()
    assert moved > 1000 or not permutation
    # 53 tokens: 8 masked ones would exceed the 6 that are allowed.
    assert masked.counts.max() == (12 if permutation else 6)


@pytest.mark.parametrize(
    ("length", "probability", "most", "count"),
    [(13, 0.15, 20, 2), (7, 0.0, 20, 0), (4, 0.01, 20, 1), (67, 0.15, 5, 5), (20, 0.125, 20, 2)],
)
def test_the_number_of_masks_is_bounded(length, probability, most, count):
    ids, layout, _ = rows_of(10, 1, length - 4, 70)
    masked = mask(MaskingOptions(most, probability), ids, layout)
    assert masked.counts.tolist() == [count] * 10


@pytest.mark.parametrize("favor_shorter", [True, False])
def test_favor_shorter_draws_longer_runs_less_often(favor_shorter):
    """The first run in a row has n words with a probability proportional to 1 / n."""
    ids, layout, _ = rows_of(6000, 200, 300, 512)
    options = MaskingOptions(6, 0.006, favor_shorter_ngram=favor_shorter)
    assert round(503 * 0.006) == 3
    masked = mask(options, ids, layout)
    # Three tokens of three words: separate, two and one, or all together, which three separate runs
    # rarely form by chance.
    shapes = collections.Counter(
        tuple(np.diff(layout.text_number(np.zeros(3, int), row[:3])) == 1)
        for row in masked.positions
    )
    p = np.array([1, 1 / 2, 1 / 3]) / (11 / 6)
    p = p if favor_shorter else p[::-1]
    # A run of three at once, or what fits: after one, one or two; after two, one.
    expected = [p[2], p[1] + p[0] * (p[1] + p[2]), p[0] * p[0]]
    pairs = shapes[True, False] + shapes[False, True]
    drawn = np.array([shapes[True, True], pairs, shapes[False, False]])
    np.testing.assert_allclose(drawn / 6000, expected, atol=0.03)
