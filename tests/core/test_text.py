"""Texts for messages: the first names of many."""

from albert.core.text import listed


def test_more_than_three_names_are_shortened():
    assert list(map(listed, ("", "a", "abc", "abcd"))) == ["", "a", "a, b, c", "a, b, c, ..."]
