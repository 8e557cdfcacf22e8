"""Orders of records in buckets of similar length. Orders without buckets: `test_batches.py`."""

import collections
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from albert.records.order import (
    MOST_RECORDS,
    BucketOrder,
    PackedOrder,
    pack_lengths,
    shuffled_numbers,
)

NUM_STEPS = 30


@st.composite
def trainings(draw):
    buckets = sorted(draw(st.sets(st.integers(1, 40), min_size=1, max_size=5)))
    lengths = draw(st.lists(st.integers(0, buckets[-1]), min_size=1, max_size=40))
    return lengths, buckets, draw(st.integers(1, 12)), draw(st.integers(0, 3))


def order_of(lengths, buckets, step_size, seed=1):
    """Returns the order of records of two sequences, of which the longer one counts."""
    both = np.stack([lengths, np.array(lengths) // 2], axis=1)
    return BucketOrder(both, buckets, step_size, seed)


def steps_of(lengths, buckets, step_size, seed):
    """Returns the steps and their buckets, from records in the order without buckets."""
    waiting = collections.defaultdict(list)
    for epoch in itertools.count():
        for number in shuffled_numbers(len(lengths), len(lengths), seed, epoch).tolist():
            bucket = min(b for b in buckets if lengths[number] <= b)
            waiting[bucket].append(number)
            if len(waiting[bucket]) == step_size:
                yield bucket, waiting.pop(bucket)


@settings(max_examples=40)
@given(trainings())
def test_records_wait_in_a_bucket_until_they_fill_a_step(training):
    """Any step can be computed without the previous ones, as for a resumed run."""
    order, step_size = order_of(*training), training[2]
    expected = list(itertools.islice(steps_of(*training), NUM_STEPS))
    for number in reversed(range(NUM_STEPS)):
        assert order.numbers(step_size, number).tolist() == expected[number][1]


@settings(max_examples=40)
@given(trainings(), st.integers(1, 4), st.integers(1, 3))
def test_a_step_has_the_same_records_however_it_is_split(training, workers, micro_batches):
    lengths, buckets, batch_size, seed = training
    parts = workers * micro_batches
    order = order_of(lengths, buckets, batch_size * parts, seed)
    for step in range(5):
        whole = order.numbers(batch_size * parts, step)
        batches = [order.numbers(batch_size, step * parts + part) for part in range(parts)]
        assert np.array_equal(np.concatenate(batches), whole)


def test_a_step_in_the_far_future_is_computed_at_once():
    order = order_of([1, 2, 60, 64, 64], [32, 64], 4)
    assert set(order.numbers(4, 10**12).tolist()) in ({0, 1}, {2, 3, 4})


@pytest.mark.parametrize(("num_steps", "without"), [(2, 9), (5, 0), (20, 0)])
def test_the_log_counts_records_and_padding(log, num_steps, without):
    """7 x 20, 9 x 30 and 1 x 100 tokens, padded to 7 x 25, 9 x 50 and 1 x 100, or to 17 x 100."""
    lengths = [[20]] * 7 + [[30]] * 9 + [[100]]
    order = BucketOrder(np.array(lengths), [25, 50, 75, 100], 4, seed=1)
    order.log(num_steps)
    said, *warnings = log()
    counts = "features of up to 25 (7), 50 (9), 75 (0), 100 (1) tokens"
    padding = "padding is 29.7 % of the positions, 70.0 % if all had 100"
    assert said == f"--length_buckets: {counts}; {padding}"
    left = 17 - len({number for step in range(num_steps) for number in order.numbers(4, step)})
    assert (left > without) == (num_steps == 5)
    expected = f"{left} features are in none of the {num_steps} steps of 4; without buckets it "
    assert len(warnings) == (num_steps == 5)
    assert all(f"{expected}would be {without}. " in line for line in warnings)


LENGTHS = st.lists(st.integers(1, 24), min_size=1, max_size=80)


@given(LENGTHS)
def test_every_record_is_in_a_row_that_fits_and_few_rows_have_room(lengths):
    """At most one row is at most half full, except for rows of many records."""
    counts = np.bincount(lengths, minlength=25)
    kinds, numbers = pack_lengths(counts, 24)
    assert kinds.shape == (len(numbers), MOST_RECORDS) and (numbers > 0).all()
    assert (kinds.sum(axis=1) <= 24).all() and (kinds[:, 0] > 0).all()
    placed = np.bincount(np.repeat(kinds, numbers, axis=0).ravel(), minlength=25)
    np.testing.assert_array_equal(placed[1:], counts[1:])
    half = (kinds.sum(axis=1) <= 12) & ((kinds > 0).sum(axis=1) <= MOST_RECORDS // 2)
    assert numbers[half].sum() <= 1


@settings(max_examples=30)
@given(LENGTHS, st.integers(1, 7), st.integers(0, 3))
def test_epochs_have_every_record_once_in_another_order(lengths, batch_size, seed):
    lengths = np.array(lengths)
    order = PackedOrder(lengths, 24, seed)
    count = 2 * order.num_rows
    whole = [(order.numbers(1, k), order.rows(1, k)) for k in range(count)]
    for epoch in (whole[: order.num_rows], whole[order.num_rows :]):
        records = np.concatenate([numbers for numbers, _ in epoch])
        np.testing.assert_array_equal(np.sort(records), np.arange(len(lengths)))
        assert all(lengths[numbers].sum() <= 24 for numbers, _ in epoch)
    # Batches are the same rows, also if nothing was read before.
    again = PackedOrder(lengths, 24, seed)
    batch = count // batch_size // 2
    rows = whole[batch * batch_size : (batch + 1) * batch_size]
    if len(rows) == batch_size:
        expected = np.concatenate([numbers for numbers, _ in rows])
        np.testing.assert_array_equal(again.numbers(batch_size, batch), expected)
        row_numbers = np.repeat(np.arange(batch_size), [len(numbers) for numbers, _ in rows])
        np.testing.assert_array_equal(again.rows(batch_size, batch), row_numbers)


def test_rows_differ_between_epochs_and_seeds_and_are_nearly_full():
    lengths = np.full(400, 6)
    one, other = PackedOrder(lengths, 24, 1), PackedOrder(lengths, 24, 2)
    first, second = one.numbers(50, 0), one.numbers(50, 2)
    assert one.num_rows == 100 and one.num_sequences == 4
    for changed in (second, other.numbers(50, 0)):
        assert len(np.intersect1d(first, changed)) < 180
    neighbors = {tuple(sorted(row)) for row in first.reshape(50, 4)}
    assert not neighbors & {tuple(sorted(row)) for row in one.numbers(100, 1).reshape(100, 4)}
    lengths = np.random.default_rng(1).integers(5, 129, 20_000)
    order = PackedOrder(lengths, 128, 1)
    assert lengths.sum() > 0.99 * 128 * order.num_rows
    assert f" rows, {20_000 / order.num_rows:.2f} per row and at most " in order.summary()
