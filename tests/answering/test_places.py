"""Where an answer stands: lines, characters, sentences."""

from __future__ import annotations

from answering.places import place_of

TEXT = 'First line.\nThe "second" one. It has two sentences! And a\nthird line? Yes.'


def found(piece: str, text: str = TEXT):
    start = text.index(piece)
    return place_of(text, start, start + len(piece))


def test_line_character_and_sentence():
    for piece, line, character, sentence in (
        ("First", 1, 1, "First line."),
        ("second", 2, 6, 'The "second" one.'),
        ("two", 2, 26, "It has two sentences!"),
        ("third", 3, 1, "And a\nthird line?"),
        ("Yes.", 3, 13, "Yes."),
        ("sentences! And", 2, 30, "It has two sentences! And a\nthird line?"),
        ("one. It", 2, 14, 'The "second" one. It has two sentences!'),
    ):
        place = found(piece)
        assert (place.line, place.character) == (line, character)
        assert (place.sentence, place.text) == (sentence, piece)


def test_paragraphs_and_scripts_without_spaces():
    assert found("b", "a\n\nb c\n \nd").sentence == "b c"
    assert found("二", "一。二三。四").sentence == "二三。"
    assert found("b", 'He said "a." Then b.').sentence == "Then b."


def test_a_long_sentence_is_cut_where_it_is_shown():
    place = found("here", "x " * 1000 + "here" + " y" * 1000)
    assert place.before.startswith("…") and place.after.endswith("…")
    assert len(place.sentence) == 200 + 4 + 200 + 2
    assert place.character == 2001
    # But not where it ends there.
    text = "Before. " + "x" * 200 + "here" + "y" * 199 + ". After."
    assert found("here", text).sentence == "x" * 200 + "here" + "y" * 199 + "."
