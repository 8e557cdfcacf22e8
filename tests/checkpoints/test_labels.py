"""Labels of a model and of a task are the same by their names, in any order."""

import pytest

from albert.checkpoints.labels import rows_by_name

BY_NUMBER = "The model's labels have no names; assumed: LABEL_0 = no, LABEL_1 = yes"


@pytest.mark.parametrize(
    ("theirs", "ours", "rows", "text"),
    [
        (["a", "b"], ["a", "b"], [0, 1], ""),
        (["c", "a", "b"], ["a", "b", "c"], [1, 2, 0], ""),
        ([None], [None], [0], ""),
        (["a", "b"], ["b", "c"], None, "the labels a, b, not b, c"),
        (["a"], ["A"], None, "the labels a, not A"),
        ([None], ["0"], None, "the labels a number, not 0"),
        (["0", "1"], ["1", "2"], None, "the labels 0, 1, not 1, 2"),
        (["LABEL_0", "LABEL_1"], ["no", "yes"], [0, 1], BY_NUMBER),
        (["LABEL_0", "LABEL_1"], ["a", "b", "c"], None, "the labels LABEL_0, LABEL_1, not a, b, c"),
        (["1", "0"], ["0", "1"], [1, 0], "The model's labels have no names; assumed: 0 = 0, 1 = 1"),
        (["n", "p"], ["1", "0"], [1, 0], "The task's labels have no names; assumed: p = 1, n = 0"),
    ],
)
def test_rows_follow_names_and_numbers_only_without_names(theirs, ours, rows, text):
    assert rows_by_name(theirs, ours) == (rows, text)


def test_the_order_of_numbers_is_not_that_of_their_digits():
    """A table with twelve numbers as labels has them in the order 0, 1, 10, 11, 2."""
    theirs, ours = [f"LABEL_{n}" for n in range(12)], sorted(map(str, range(12)))
    rows, _ = rows_by_name(theirs, ours)
    assert rows == [int(label) for label in ours]
