"""Packing of records into rows: every record once, rows that fit, the same order when resumed."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from albert.data.order import MOST_RECORDS, PackedOrder, pack_lengths

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
