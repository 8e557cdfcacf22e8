"""Where an answer stands: lines, characters, sentences."""

from __future__ import annotations

import pytest

from answering.places import place_of

TEXT = 'First line.\nThe "second" one. It has two sentences! And a\nthird line? Yes.'


def found(piece: str, text: str = TEXT):
    start = text.index(piece)
    return place_of(text, start, start + len(piece))


@pytest.mark.parametrize(
    ("piece", "line", "character", "sentence"),
    [
        ("First", 1, 1, "First line."),
        ("second", 2, 6, 'The "second" one.'),
        ("two", 2, 26, "It has two sentences!"),
        ("third", 3, 1, "And a\nthird line?"),
        ("Yes.", 3, 13, "Yes."),
        ("sentences! And", 2, 30, "It has two sentences! And a\nthird line?"),
        ("one. It", 2, 14, 'The "second" one. It has two sentences!'),
    ],
)
def test_line_character_and_sentence(piece, line, character, sentence):
    place = found(piece)
    assert (place.line, place.character) == (line, character)
    assert place.sentence == sentence
    assert place.text == piece


def test_paragraphs_and_scripts_without_spaces():
    assert found("b", "a\n\nb c\n \nd").sentence == "b c"
    assert found("二", "一。二三。四").sentence == "二三。"
    assert found("b", 'He said "a." Then b.').sentence == "Then b."


def test_a_long_sentence_is_cut_where_it_is_shown():
    text = "x " * 1000 + "here" + " y" * 1000
    place = found("here", text)
    assert place.before.startswith("…") and place.after.endswith("…")
    assert len(place.sentence) == 200 + 4 + 200 + 2
    assert place.character == 2001


def test_a_sentence_that_ends_where_the_cut_would_be():
    text = "Before. " + "x" * 200 + "here" + "y" * 199 + ". After."
    assert found("here", text).sentence == "x" * 200 + "here" + "y" * 199 + "."
