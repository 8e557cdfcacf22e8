"""Windows of long texts: each place belongs to the window that gives it the most context."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from albert.data.sequences import positions_in_windows


@given(st.integers(0, 60), st.integers(1, 20), st.data())
def test_each_place_is_in_the_window_with_the_most_context(length, room, data):
    numbers = st.integers(0, max(length - 1, 0))
    positions = sorted(data.draw(st.sets(numbers, max_size=length if length else 0)))
    windows = list(positions_in_windows(length, room, np.array(positions, int)))
    assert [position for _, own in windows for position in own] == positions, "once, and in order"
    starts = [start for start, _ in windows]
    stride = max(room // 2, 1)
    assert starts == [*range(0, max(length - room + stride, 1), stride)][: len(starts)]
    assert (not starts) == (length == 0) and all(start < length for start in starts)
    assert not starts or starts[-1] + room >= length > (starts[-2] + room if starts[1:] else 0)

    def context(start, position):
        return min(position - start, min(start + room, length) - 1 - position)

    for start, own in windows:
        for position in own:
            assert context(start, position) == max(context(other, position) for other in starts)
