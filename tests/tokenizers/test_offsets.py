"""The characters of each token, tested by properties over all kinds of text."""

import functools
import time

import hypothesis
import numpy as np
import pytest
import sentencepiece as spm
from hypothesis import strategies as st

from albert import tokenization
from albert.tokenizers.offsets import Aligner, WordAligner
from albert.tokenizers.text_rules import Normalization
from albert.tokenizers.wordpiece_text import BasicTokenizer, WordpieceTokenizer, words_in
from tests.helpers.golden import GOLDEN
from tests.helpers.squad import train_tokenizer
from tests.helpers.texts import TEXTS

ASCII = st.text(st.characters(max_codepoint=127), max_size=40)
# For SentencePiece, and for WordPiece.
WAYS = st.builds(Normalization, st.booleans(), keep_accents=st.booleans())
WAY = Normalization()
OPTIONS = st.tuples(st.booleans(), st.none() | st.booleans(), st.booleans())
SETTINGS = hypothesis.settings(max_examples=150, suppress_health_check=list(hypothesis.HealthCheck))


def load(path):
    return tokenization.FullTokenizer(None, True, str(path)).sp_model


@pytest.fixture(scope="module", params=["golden", "tiny"])
def model(request):
    """Returns a SentencePiece model: of sentences, or of a few made-up words."""
    if request.param == "tiny":
        return load(request.getfixturevalue("squad_dir") / "spm.model")
    return load(GOLDEN.spm_model)


@pytest.fixture(scope="module")
def align(model):
    aligners = functools.cache(functools.partial(Aligner, model))
    return lambda text, way=WAY: aligners(way).tokenize(text)


def prepared(text, way=WAY):
    return tokenization.preprocess_text(text, True, way.do_lower_case, way.keep_accents)


def normalized(model, text, way=WAY):
    """Returns what the model sees of a text, without white space and with one form of sigma."""
    return spelled(model.normalize(prepared(text, way)))


def spelled(pieces):
    return "".join(pieces).replace("▁", "").replace("ς", "σ")


def pieces_of(model, text, way=WAY):
    return tokenization.encode_pieces(model, prepared(text, way))


def groups(tokens):
    """Yields runs of tokens that share characters: their first and last tokens and characters."""
    count = len(tokens.ids)
    first = 0
    for i in range(count):
        if i + 1 == count or tokens.starts[i + 1] > tokens.ends[i]:
            yield first, i, int(tokens.starts[first]), int(tokens.ends[i])
            first = i + 1


@hypothesis.given(text=TEXTS | ASCII, way=WAYS)
@hypothesis.example("19, and 9,", Normalization())
@hypothesis.example("b １９, b ①⑨, b", Normalization())
@hypothesis.example("", Normalization())
@hypothesis.example("\n\t \u0301\u200b\ufeff\u3000", Normalization())
@hypothesis.example("\u0130 \u0130a", Normalization(keep_accents=True))
@SETTINGS
def test_tokens_spell_the_text_at_their_offsets(model, align, text, way):
    tokens, pieces = align(text, way), pieces_of(model, text, way)
    assert tokens.ids.tolist() == tokenization.encode_ids(model, prepared(text, way))
    assert tokens.ids.dtype == tokens.ends.dtype == np.int32
    starts, ends = tokens.starts.tolist(), tokens.ends.tolist()
    for start, end in zip(starts, ends, strict=True):
        assert 0 <= start <= len(text) and start - 1 <= end < len(text)
    assert starts == sorted(starts) and ends == sorted(ends) and len(starts) == len(tokens.ids)
    parts = []
    for first, last, start, end in groups(tokens):
        parts.append(text[start : end + 1])
        assert normalized(model, parts[-1], way) == spelled(pieces[first : last + 1])
    assert normalized(model, "".join(parts), way) == normalized(model, text, way)
    assert "".join(parts) in text


@hypothesis.given(text=TEXTS, data=st.data())
@SETTINGS
def test_span_of_covers_the_answer_with_the_fewest_tokens(model, align, text, data):
    tokens = align(text)
    hypothesis.assume(len(tokens.ids))
    first = data.draw(st.integers(0, len(text) - 1), "first")
    last = data.draw(st.integers(first, len(text) - 1), "last")
    assert_span_is_shortest(model, tokens, text, first, last)


@pytest.mark.parametrize("text", ["   \x1b1,", "1,"])
def test_no_answer_begins_at_the_white_space_before_a_number(model, align, text):
    """The white space is two tokens, because a number with a comma is split again."""
    assert pieces_of(model, text)[:3] == ["▁", "▁", "1"]
    assert_span_is_shortest(model, align(text), text, 0, len(text) - 1)


def assert_span_is_shortest(model, tokens, text, first, last):
    """Asserts that the span of the characters `first` to `last` has the tokens that touch them."""
    start, end = tokens.span_of(first, last)
    assert 0 <= start <= end < len(tokens.ids)
    covered = range(tokens.starts[start], tokens.ends[end] + 1)
    lost = [i for i in range(first, last + 1) if i not in covered and normalized(model, text[i])]
    assert not lost, (text[first : last + 1], tokens.ids[start : end + 1])
    # A token that is only the white space before the first word begins no answer.
    pieces = pieces_of(model, text)
    from_word = next((i for i, piece in enumerate(pieces) if piece != "▁"), 0)
    spans = list(enumerate(zip(tokens.starts, tokens.ends, strict=True)))
    touching = [i for i, (a, b) in spans if i >= from_word and max(a, first) <= min(b, last)]
    if touching:
        # Tokens without characters may be at the span's end.
        extra = [i for i, (a, b) in spans[start : end + 1] if i not in touching and b >= a]
        assert (start, extra) == (touching[0], [])


def test_a_model_without_a_piece_for_white_space_works(tmp_path):
    (tmp_path / "text").write_text("ab ab ab\n" * 20)
    train_tokenizer(tmp_path / "text", tmp_path / "plain", 10, "word")
    model = load(tmp_path / "plain.model")
    assert "▁" not in model.id_to_piece(list(range(model.get_piece_size())))
    tokens = Aligner(model, Normalization()).tokenize("xy ab")
    assert tokens.ids.tolist() == [model.unk_id(), model.piece_to_id("▁ab")]
    assert tokens.span_of(0, 1) == (0, 0)


def assert_time_is_linear(tokenize, units):
    """Eight times the text must not take nearly 64 times as long, as quadratic time would."""

    def seconds(text):
        started = time.process_time()
        tokenize(text)
        return time.process_time() - started

    for unit in units:
        short, long = (unit * (n // len(unit)) for n in (15_000, 120_000))
        assert min(seconds(long) for _ in range(2)) < 30 * min(seconds(short) for _ in range(3))


@pytest.mark.slow
def test_sentencepiece_takes_linear_time(align):
    units = ["word ", "a", "1,", "1995, ", "é", "½ ", "中", "😀", "a\u200b", "x\n\n \u0301", "Σ."]
    assert_time_is_linear(align, [*units, "\x00"])


class TestCommaRule:
    @pytest.fixture(scope="class")
    def with_commas(self, tmp_path_factory):
        prefix = str(tmp_path_factory.mktemp("commas") / "commas")
        options = {"vocab_size": 30, "hard_vocab_limit": False, "model_type": "bpe"}
        options |= {"split_by_unicode_script": False, "minloglevel": 2, "model_prefix": prefix}
        lines = iter(20 * ["in 1, 9, x at"])
        spm.SentencePieceTrainer.train(sentence_iterator=lines, **options)
        return load(f"{prefix}.model")

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("in 1, 9, x", "▁in=in|▁1= 1|,=,|▁9= 9|,=,|▁x= x"),
            ("1, x", "▁1=1|,=,|▁x= x"),
            ("at 9,  9, x", "▁at=at|▁9= 9|,=,|▁9=  9|,=,|▁x= x"),
            ("\u0661\u200b1\u0301, x", "▁=\u0661|\u0661=\u0661|▁1=\u200b1\u0301|,=,|▁x= x"),
        ],
    )
    def test_pieces_are_as_by_hand(self, with_commas, text, expected):
        raw = with_commas.encode(tokenization.preprocess_text(text), out_type=str)
        assert {"▁1,", "▁9,"} & set(raw), "the rule is not at work"
        tokens = Aligner(with_commas, Normalization()).tokenize(text)
        spans = zip(pieces_of(with_commas, text), tokens.starts, tokens.ends, strict=True)
        assert "|".join(f"{p}={text[start : end + 1]}" for p, start, end in spans) == expected


class TestWordPiece:
    @pytest.fixture(scope="class")
    def vocab(self):
        letters = [*map(chr, range(97, 123)), "é", "σ", "中", "각", "\u1100", "T", "O"]
        pieces = ["[UNK]", *letters, *(f"##{letter}" for letter in letters)]
        pieces += ["the", "th", "##at", "of", "19", "##95", *"1,9."]
        return {piece: i for i, piece in enumerate(pieces)}

    @staticmethod
    def sources(text, basic):
        """Returns the source of each character of a word; a vanished one adds to the previous."""
        lengths = [len("".join(basic.tokenize(text[:i]))) for i in range(len(text) + 1)]
        sources = []
        for i in range(len(text)):
            end = i
            while end + 1 < len(text) and basic.tokenize(f"a{text[end + 1]}b") == ["ab"]:
                end += 1
            sources += [(i, end)] * (lengths[i + 1] - lengths[i])
        return sources

    @hypothesis.given(text=TEXTS, options=OPTIONS)
    @hypothesis.example(" \n\u0301\u200b", (True, None, True))
    @hypothesis.example("The\u0301  of\u200b, caf\u00e9\x00 1995 각중文 \u2028", (True, None, True))
    @hypothesis.example("\u0130 \u0130a", (True, False, False))
    @SETTINGS
    def test_tokens_and_offsets_follow_the_definition(self, vocab, text, options):
        basic, wordpiece = BasicTokenizer(*options), WordpieceTokenizer(vocab)
        aligner = WordAligner(basic, wordpiece, vocab["[UNK]"])
        tokens, expected, sources = aligner.tokenize(text), [], self.sources(text, basic)
        for word in basic.tokenize(text):
            for piece in wordpiece.tokenize(word):
                length = len(word) if piece == "[UNK]" else len(piece.removeprefix("##"))
                own, sources = sources[:length], sources[length:]
                expected.append((vocab[piece], own[0][0], own[-1][1]))
        assert not sources
        assert expected == list(zip(tokens.ids, tokens.starts, tokens.ends, strict=True))
        assert tokens.ids.tolist() == aligner.ids(text)
        assert tokens.first_word == 0

    def test_wordpiece_takes_linear_time(self, vocab):
        aligner = WordAligner(BasicTokenizer(), WordpieceTokenizer(vocab), vocab["[UNK]"])
        units = ["word ", "a", "é", "中", "각", "a\u200b", "\x00", "Σ.", "?"]
        assert_time_is_linear(aligner.tokenize, units)


def words_by_search(tokens, words):
    """Returns the first tokens with a character of words; words of the same token are joined."""
    spans, joined = list(zip(tokens.starts.tolist(), tokens.ends.tolist(), strict=True)), {}
    for start, end in words:
        piece = next((n for n, (a, b) in enumerate(spans) if a < end and b >= start), None)
        if piece is not None:
            joined[piece] = (joined.get(piece, (start, end))[0], end)
    return list(joined), list(joined.values())


@hypothesis.given(text=TEXTS | ASCII, way=WAYS)
@SETTINGS
def test_first_pieces_are_the_first_with_a_character_of_a_word(align, text, way):
    tokens = align(text, way)
    pieces, words = tokens.first_pieces(words_in(text))
    assert (pieces.tolist(), words) == words_by_search(tokens, words_in(text))


def test_words_in_a_text_are_those_of_berts_tokenizer():
    """Punctuation and ideographs are words on their own; control characters are part of words."""
    text = "\u200bNew-York,\u00a0中文 1.5\t(x)\u2028_é"
    words = [text[start:end] for start, end in words_in(text)]
    expected = ["\u200bNew", "-", "York", ",", "中", "文", "1", ".", "5", "(", "x", ")", "_", "é"]
    assert words == expected
    visible = text.replace("\u200b", "")
    assert [w.strip("\u200b") for w in words] == BasicTokenizer(False).tokenize(visible)
