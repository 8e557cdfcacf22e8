"""Sentences: what ends one, what stays, and the longest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert.core.errors import FlagError
from albert.corpus.sentences import LONGEST_SENTENCE, check_language, split_sentences


def test_abbreviations_and_line_ends_do_not_end_a_sentence():
    text = "Dr. Smith came\nto Washington D.C. at 5 p.m. today. \tHe left!\r\n \r\nA title\n\nEnd"
    expected = ["Dr. Smith came to Washington D.C. at 5 p.m. today.", "He left!", "A title", "End"]
    assert split_sentences(text, "en") == (expected, 0)
    assert split_sentences("你好。再见。", "zh") == (["你好。", "再见。"], 0)


@given(st.text() | st.text("aB .?!\"'()\n\t。\u2028\xa0é").map(lambda text: text * 3))
def test_text_survives_except_white_space(text):
    sentences, cut = split_sentences(text, "en")
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert not cut
    assert all(one and one == " ".join(one.split()) for one in sentences)


@pytest.mark.parametrize("word", ["word ", "a", "你好", "no. ", "(A quick. ", "你好。", "One is. "])
def test_a_long_line_is_split(word):
    text = word * (300_000 // len(word))
    sentences, cut = split_sentences(text, "en")
    assert max(map(len, sentences)) <= LONGEST_SENTENCE
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert (cut > 0) == (word in ("word ", "a", "你好", "no. "))


def test_a_cut_does_not_split_a_word():
    sentences, cut = split_sentences("sesquipedalian " * 1000, "en")
    assert {word for one in sentences for word in one.split()} == {"sesquipedalian"} and cut == 3


@pytest.mark.parametrize("language", ["", "DE", "german", "de_DE", "de.UTF-8", "e", "en "])
def test_what_is_not_a_code_of_a_language_is_an_error(language):
    """sentencex would split the text as English."""
    with pytest.raises(FlagError, match=f"--language '{language}' is not a code in small letters"):
        check_language(language)


def test_a_language_without_rules_gets_a_warning(caplog):
    for language in ("am", "de", "en", "uk"):
        check_language(language)
    assert not caplog.records
    for language in ("xx", "sv", "zh", "be-tarask"):
        check_language(language)
        message = caplog.records.pop().getMessage()
        assert f"no rules for --language={language}: " in message and "English (en)" in message
