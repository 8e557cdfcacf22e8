"""Orders of records: buckets of like length. Orders without buckets: `test_batches.py`."""

import collections
import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from albert.data.order import BucketOrder, shuffled_numbers

NUM_STEPS = 30


@st.composite
def trainings(draw):
    """Lengths of records, buckets, the size of a step, and a seed."""
    buckets = sorted(draw(st.sets(st.integers(1, 40), min_size=1, max_size=5)))
    lengths = draw(st.lists(st.integers(0, buckets[-1]), min_size=1, max_size=40))
    return lengths, buckets, draw(st.integers(1, 12)), draw(st.integers(0, 3))


def order_of(lengths, buckets, step_size, seed=1):
    """Of records of two sequences, of which the longer one counts."""
    both = np.stack([lengths, np.array(lengths) // 2], axis=1)
    return BucketOrder(both, buckets, step_size, seed)


def steps_of(lengths, buckets, step_size, seed):
    """The steps, and the bucket of each: record by record as they come without buckets."""
    waiting = collections.defaultdict(list)
    for epoch in itertools.count():
        for number in shuffled_numbers(len(lengths), len(lengths), seed, epoch).tolist():
            bucket = min(b for b in buckets if lengths[number] <= b)
            waiting[bucket].append(number)
            if len(waiting[bucket]) == step_size:
                yield bucket, waiting.pop(bucket)


@hypothesis.settings(max_examples=40)
@hypothesis.given(trainings())
def test_what_waits_in_a_bucket_becomes_a_step(training):
    """Any step, without those before it, as a run that is resumed there; so that a record comes
    again when all of its bucket have come."""
    order, step_size = order_of(*training), training[2]
    expected = list(itertools.islice(steps_of(*training), NUM_STEPS))
    for number in reversed(range(NUM_STEPS)):
        assert order.numbers(step_size, number).tolist() == expected[number][1]


@hypothesis.settings(max_examples=40)
@hypothesis.given(trainings(), st.integers(1, 4), st.integers(1, 3))
def test_a_step_is_of_the_same_records_however_it_is_cut(training, workers, micro_batches):
    lengths, buckets, batch_size, seed = training
    parts = workers * micro_batches
    order = order_of(lengths, buckets, batch_size * parts, seed)
    for step in range(5):
        whole = order.numbers(batch_size * parts, step)
        batches = [order.numbers(batch_size, step * parts + part) for part in range(parts)]
        assert np.array_equal(np.concatenate(batches), whole)


def test_a_far_step():
    order = order_of([1, 2, 60, 64, 64], [32, 64], 4)
    assert set(order.numbers(4, 10**12).tolist()) in ({0, 1}, {2, 3, 4})


@pytest.mark.parametrize(("num_steps", "without"), [(2, 9), (5, 0), (20, 0)])
def test_the_log_counts_the_records(log, num_steps, without):
    """7 x 20, 9 x 30 and 1 x 100 tokens: in places for 7 x 25, 9 x 50 and 1 x 100, or 17 x 100."""
    lengths = [[20]] * 7 + [[30]] * 9 + [[100]]
    order = BucketOrder(np.array(lengths), [25, 50, 75, 100], 4, seed=1)
    order.log(num_steps)
    said, *warnings = log()
    counts = "features of up to 25 (7), 50 (9), 75 (0), 100 (1) tokens"
    padding = "padding is 29.7 % of the positions, 70.0 % if all had 100"
    assert said == f"--length_buckets: {counts}; {padding}"
    left = 17 - len({number for step in range(num_steps) for number in order.numbers(4, step)})
    assert (left > without) == (num_steps == 5)
    expected = f"{left} features are in none of the {num_steps} steps of 4, without buckets it "
    assert len(warnings) == (num_steps == 5)
    assert all(f"{expected}would be {without}: " in line for line in warnings)
