"""Sentences: what ends one, what stays, and the longest; hashes of documents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert.core.errors import FlagError
from albert.corpus.conversion import LONGEST_SENTENCE, check_language, content_hash, split_sentences


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
def test_a_long_line_is_split_between_words(word):
    text = word * (300_000 // len(word))
    sentences, cut = split_sentences(text, "en")
    assert max(map(len, sentences)) <= LONGEST_SENTENCE
    assert "".join("".join(sentences).split()) == "".join(text.split())
    assert (cut > 0) == (word in ("word ", "a", "你好", "no. "))
    sentences, cut = split_sentences("sesquipedalian " * 1000, "en")
    assert {word for one in sentences for word in one.split()} == {"sesquipedalian"} and cut == 3


def test_a_language_without_code_is_an_error():
    for language in ("", "DE", "german", "de_DE", "de.UTF-8", "e", "en "):
        with pytest.raises(FlagError, match=f"--language '{language}' is not a code in small let"):
            check_language(language)
    for language in ("de", "und", "be-tarask"):
        check_language(language)


def test_a_hash_ignores_case_width_and_white_space():
    assert content_hash("Ein\n Text") == content_hash("ein ｔｅｘｔ ")
    assert content_hash("a b") != content_hash("ab")
