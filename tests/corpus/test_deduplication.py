"""Exact de-duplication, and its memory."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from albert.corpus.deduplication import HashSet, content_hash


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(2, 5).map(lambda high: high << 40)))
def test_a_hash_is_new_once(values):
    hashes, seen = HashSet(), set()
    for value in values:
        assert hashes.add(value) == ((value or 1) not in seen)
        seen.add(value or 1)
    assert len(hashes) == len(seen)


def test_a_hash_takes_few_bytes_and_ignores_case_width_and_white_space():
    values = [content_hash(str(number)) for number in range(100_000)]
    tracemalloc.start()
    hashes = HashSet()
    assert all(map(hashes.add, values)) and not any(map(hashes.add, values))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept <= 25 * len(values)
    assert content_hash("Ein\n Text") == content_hash("ein ｔｅｘｔ ")
    assert content_hash("a b") != content_hash("ab")
