"""Words of WordPiece, against the reference's steps written down one after the other."""

import sys
import unicodedata

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.helpers.texts import TEXTS
from wordpiece_text import BasicTokenizer, WordpieceTokenizer

CJK = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)]
CJK += [(0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]


def plain_words(text, lower):
    """The definition, as BERT and ALBERT have it."""
    words = []
    for word in "".join(map(cleaned, text)).split():
        if lower:
            decomposed = unicodedata.normalize("NFD", word.lower())
            word = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        parts = [[]]
        for char in word:
            if is_punctuation(char):
                parts += [[char], []]
            else:
                parts[-1].append(char)
        words += map("".join, filter(None, parts))
    return " ".join(words).split()


def cleaned(char):
    code, category = ord(char), unicodedata.category(char)
    if char in "\t\n\r" or category == "Zs":
        return " "
    if code in (0, 0xFFFD) or category in ("Cc", "Cf"):
        return ""
    return f" {char} " if any(first <= code <= last for first, last in CJK) else char


def is_punctuation(char):
    code = ord(char)
    signs = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    return signs or unicodedata.category(char)[0] == "P"


@hypothesis.given(text=TEXTS, lower=st.booleans())
@hypothesis.settings(max_examples=200)
def test_words_are_those_of_the_definition(text, lower):
    assert BasicTokenizer(lower).tokenize(text) == plain_words(text, lower)


@pytest.mark.parametrize("lower", [True, False])
def test_characters_of_all_scripts(lower):
    """Every character between letters, but of the ones of huge blocks and private ones a part, with
    the ends of the blocks of Chinese and what lies beside them."""
    chars = [chr(code) for code in range(sys.maxunicode + 1)]
    ends = {code for first, last in CJK for code in (first - 1, first, last, last + 1)}
    huge = "CJK UNIFIED", "HANGUL SYLLABLE", "TANGUT", "CUNEIFORM", "EGYPTIAN"
    some = [
        char
        for i, char in enumerate(chars)
        if i % 97 == 0
        or i in ends
        or unicodedata.category(char) not in ("Cn", "Co", "Cs")
        and not unicodedata.name(char, "").startswith(huge)
    ]
    assert len(some) > 40_000
    text = "".join(f"a{char}B " for char in some)
    assert BasicTokenizer(lower).tokenize(text) == plain_words(text, lower)


@hypothesis.given(st.text("abc", max_size=12), st.sets(st.text("abc", min_size=1, max_size=3)))
@hypothesis.settings(max_examples=150)
def test_pieces_are_the_longest_from_the_left(word, known):
    vocab = {piece for text in known for piece in (text, f"##{text}"[: 2 + len(text) // 2 + 1])}
    expected, rest = [], word
    while rest:
        prefix = "##" if expected else ""
        found = [rest[:n] for n in range(len(rest), 0, -1) if prefix + rest[:n] in vocab]
        if not found:
            expected = ["[UNK]"]
            break
        expected.append(prefix + found[0])
        rest = rest[len(found[0]) :]
    assert WordpieceTokenizer(vocab).tokenize(word) == expected


def test_the_longest_word_and_the_unknown_token():
    tokenizer = WordpieceTokenizer({"a", "##a"}, "<?>", max_input_chars_per_word=3)
    assert tokenizer.tokenize(" aaa\taaaa b\n") == ["a", "##a", "##a", "<?>", "<?>"]
    tokenizer = WordpieceTokenizer({"a", "##a"})
    assert tokenizer.tokenize("a" * 200) == ["a"] + ["##a"] * 199
    assert tokenizer.tokenize("a" * 201) == ["[UNK]"]
