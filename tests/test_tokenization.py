"""Both tokenizers: WordPiece by hand-made examples, SentencePiece by the golden model."""

import copy
import hashlib
import logging
import os
import re
import sys
import unicodedata

import hypothesis
import pytest
import sentencepiece as spm
from hypothesis import strategies as st

from albert import tokenization
from albert.core.errors import UserError
from albert.tokenization import FullTokenizer
from albert.tokenizers.wordpiece_text import BasicTokenizer, WordpieceTokenizer
from tests.helpers.golden import GOLDEN
from tests.helpers.texts import TEXTS

WORDS = ["want", "##want", "##ed", "wa", "un", "runn", "##ing", ",", "##n", "Un"]
VOCAB = ["[UNK]", "[CLS]", "[SEP]", *WORDS]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
many = hypothesis.settings(max_examples=150)


@pytest.fixture
def write(tmp_path):
    def write(content):
        if not isinstance(content, bytes):
            content = "".join(f"{token}\n" for token in content).encode()
        (tmp_path / "vocab.txt").write_bytes(content)
        return str(tmp_path / "vocab.txt")

    return write


def test_a_vocabulary_gives_tokens_and_ids_and_a_copy_can_have_another_case(write):
    tokenizer = FullTokenizer(write(VOCAB))
    tokens = tokenizer.tokenize("UNwant\u00e9d,running")
    assert tokens == ["un", "##want", "##ed", ",", "runn", "##ing"]
    ids = tokenizer.convert_tokens_to_ids(tokens)
    assert ids == [7, 4, 5, 10, 8, 9]
    assert tokenization.convert_tokens_to_ids(tokenizer.vocab, tokens) == ids
    assert tokenizer.convert_ids_to_tokens(ids) == tokens
    assert tokenization.convert_ids_to_tokens(tokenizer.inv_vocab, ids) == tokens
    assert tokenizer.vocab == {token: i for i, token in enumerate(VOCAB)}
    assert tokenizer.inv_vocab == dict(enumerate(VOCAB))
    assert {t for t in VOCAB if not tokenizer.begins_word(t)} == {t for t in VOCAB if "##" in t}
    lower = FullTokenizer(write(VOCAB))
    cased = copy.copy(lower)
    assert lower.encode(["Unwanted"]) == [[7, 4, 5]]
    cased.do_lower_case = False
    for tokenizer in (cased, FullTokenizer(write(VOCAB), do_lower_case=False)):
        assert tokenizer.encode(["Unwanted"]) == [[12, 4, 5]]
        assert tokenizer.encode_with_offsets("Unwanted").ids.tolist() == [12, 4, 5]
        assert tokenizer.tokenize("Unwanted UNwanted") == ["Un", "##want", "##ed", "[UNK]"]
    assert lower.encode(["Unwanted"]) == [[7, 4, 5]]


def test_load_vocab_takes_the_first_word_of_a_line(write):
    """Ids are line numbers, regardless of the lines' content; a Chinese vocabulary has U+2028."""
    lines = ["a\t-1.5", "", "b c\r", "\u2028", "\u3000", "b\u2028c", "\u00e9\xff"]
    vocab = tokenization.load_vocab(write("\n".join(lines).encode()))
    expected = ["a", " ", "b", "\u2028", "\u3000", "b\u2028c", "\u00e9\xff"]
    assert list(vocab.items()) == [(token, i) for i, token in enumerate(expected)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (["[UNK]", "a", "b", "a"], ": lines 2 and 4 are both 'a'"),
        (["a", "", "b", ""], ": lines 2 and 4 are both ' '"),
        (["[UNK]", "a", "b", "a "], ": lines 2 and 4 are both 'a'"),
        ("[PAD]\n[UNK]\n".encode("utf-8-sig"), ".* begins with a byte order mark.*without it"),
        ("[PAD]\n[UNK]\nfür\n".encode("latin-1"), ".* line 3 is not UTF-8; convert the file"),
        ("[PAD]\n[UNK]\n".encode("utf-16"), ".* line 1 is not UTF-8; convert the file"),
    ],
)
def test_a_vocabulary_that_cannot_be_read_is_an_error(write, content, message):
    with pytest.raises(UserError, match=rf"vocab\.txt{message}"):
        FullTokenizer(write(content))


@pytest.mark.parametrize("convert", [tokenization.convert_to_unicode, tokenization.printable_text])
def test_bytes_are_decoded_without_invalid_ones(convert):
    assert convert("h\u00e9") == convert("h\u00e9".encode()) == "h\u00e9"
    assert convert(b"a\xffb") == "ab"
    with pytest.raises(ValueError, match="int"):
        convert(3)
    assert tokenization.BasicTokenizer().tokenize(b"caf\xe9! OK") == ["caf", "!", "ok"]


@pytest.fixture(scope="module")
def bert():
    return pytest.importorskip("transformers.models.bert.tokenization_bert")


# Blocks of ideographs, of which each is a word.
CJK = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F)]
CJK += [(0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]


def is_assigned(char):
    # `transformers` removes the others.
    return unicodedata.category(char) not in ("Cn", "Co", "Cs")


@pytest.mark.parametrize("lower", [True, False])
def test_characters_of_all_scripts_are_words_as_in_transformers(bert, lower):
    """Between letters, and a final sigma; of huge blocks only a part, and the ends of Chinese ones.
    With their case, `transformers` composes letters."""
    ends = {code for first, last in CJK for code in (first - 1, first, last, last + 1)}
    huge = "CJK UNIFIED", "HANGUL SYLLABLE", "TANGUT", "CUNEIFORM", "EGYPTIAN"
    some = [
        char
        for code, char in enumerate(map(chr, range(sys.maxunicode + 1)))
        if is_assigned(char)
        and (code % 97 == 0 or code in ends or not unicodedata.name(char, "").startswith(huge))
        and (lower or unicodedata.is_normalized("NFC", f"a{char}B"))
    ]
    assert len(some) > 37_000
    text = "".join(f"a{char}B " for char in [*some, "ΟΣ ΣΟΦΟΣ. Σ"])
    expected = bert.BasicTokenizer(do_lower_case=lower).tokenize(text)
    assert BasicTokenizer(lower).tokenize(text) == expected
    assert BasicTokenizer(lower).tokenize("a\u0378\ue000b") == ["a\u0378\ue000b"]


@hypothesis.given(st.text("abc", max_size=12), st.sets(st.text("abc", min_size=1, max_size=3)))
@hypothesis.settings(max_examples=150)
def test_pieces_are_the_longest_from_the_left(word, known):
    vocab = {piece for text in known for piece in (text, f"##{text}"[: 2 + len(text) // 2 + 1])}
    expected, rest = [], word
    while rest:
        prefix = "##" if expected else ""
        pieces = [rest[:n] for n in range(len(rest), 0, -1) if prefix + rest[:n] in vocab]
        if not pieces:
            expected = ["[UNK]"]
            break
        expected.append(prefix + pieces[0])
        rest = rest[len(pieces[0]) :]
    assert WordpieceTokenizer(vocab).tokenize(word) == expected


def test_a_word_beyond_the_longest_is_the_unknown_token():
    tokenizer = WordpieceTokenizer({"a", "##a"}, "<?>", max_input_chars_per_word=3)
    assert tokenizer.tokenize(" aaa\taaaa b\n") == ["a", "##a", "##a", "<?>", "<?>"]
    tokenizer = WordpieceTokenizer({"a", "##a"})
    assert tokenizer.tokenize("a" * 200) == ["a"] + ["##a"] * 199
    assert tokenizer.tokenize("a" * 201) == ["[UNK]"]


def plain_preprocess_text(text, remove_space, lower, keep_accents=False):
    """Applies the definition: the NFKD form of the whole text, without combining marks."""
    if remove_space:
        text = " ".join(text.split())
    if not keep_accents:
        text = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in text if not unicodedata.combining(c))
    return text.lower() if lower else text


ANY = st.characters(exclude_categories=["Cs"]) | st.characters(categories=["Cs", "L", "Mn", "Zs"])


@many
@hypothesis.given(st.text(ANY), st.tuples(*3 * [st.booleans()]))
def test_preprocess_text_follows_its_definition(text, options):
    """Lone surrogates are excluded, so that the result can be encoded."""
    result = tokenization.preprocess_text(text, *options)
    result.encode("utf-8")
    replaced = "".join("\ufffd" if 0xD800 <= ord(c) <= 0xDFFF else c for c in text)
    assert result == plain_preprocess_text(replaced, *options)


def test_preprocess_text_handles_all_of_unicode():
    """Once forward and once backward, so that every mark also follows another character."""
    text = "".join(chr(i) for i in range(sys.maxunicode + 1) if not 0xD800 <= i <= 0xDFFF)
    for each in (text, text[::-1]):
        assert tokenization.preprocess_text(each) == plain_preprocess_text(each, True, False)


MODEL = str(GOLDEN.spm_model)


@pytest.fixture(scope="module")
def sp():
    return spm.SentencePieceProcessor(model_file=MODEL)


@pytest.mark.parametrize("make", [FullTokenizer, FullTokenizer.from_scratch])
def test_a_sentencepiece_model_gives_its_pieces_and_ids(make, sp, write):
    tokenizer = make(write(VOCAB), True, MODEL)
    text = "the norman conquest of england"
    tokens = tokenizer.tokenize(text)
    assert tokens == sp.encode(text, out_type=str)
    assert tokenizer.convert_tokens_to_ids(tokens) == sp.encode(text, out_type=int)
    pieces = [sp.id_to_piece(i) for i in range(1600)]
    assert tokenizer.vocab == {piece: i for i, piece in enumerate(pieces)}
    assert tokenizer.inv_vocab == dict(enumerate(pieces))
    assert tokenizer.convert_tokens_to_ids(pieces) == list(range(1600))
    assert tokenizer.convert_ids_to_tokens(range(1600)) == pieces
    assert pieces[:5] == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    assert tokenizer.convert_tokens_to_ids(["no such piece", b"[CLS]"]) == [1, 2]


@pytest.mark.parametrize(
    ("texts", "are_cut"),
    [
        (["1, 2", "of 1, and", "9, 1", "in 1, 9, 1, we", "x 9,", "1,000 and 20,000"], True),
        (["", "1,234", "a, b", ",", ", 1", "1 ,", "1.", "\u00b2"], False),
    ],
)
def test_a_comma_after_a_digit_is_a_separate_piece(texts, are_cut, sp):
    parts = {f"{digit},": [*sp.encode(digit, out_type=str), ","] for digit in "0123456789"}
    for text in texts:
        raw = sp.encode(text, out_type=str)
        expected = [part for piece in raw for part in parts.get(piece, [piece])]
        assert (expected != raw) == are_cut
        assert tokenization.encode_pieces(sp, text) == expected
        assert tokenization.encode_pieces(sp, text, return_unicode=False) == expected
        assert tokenization.encode_ids(sp, text) == [sp.piece_to_id(piece) for piece in expected]


def test_sampled_pieces_spell_the_text(sp):
    text = "the norman conquest of england"
    draws = {tuple(tokenization.encode_pieces(sp, text, sample=True)) for _ in range(20)}
    assert len(draws) > 1
    assert {"".join(pieces).replace("\u2581", " ").strip() for pieces in draws} == {text}


def test_unreadable_files_and_other_content_are_errors(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, message in (("absent.file", "absent.file"), ("pipe", "pipe is not a regular file")):
        for arguments in ([str(tmp_path / name)], [None, True, str(tmp_path / name)]):
            with pytest.raises(UserError, match=message):
                FullTokenizer(*arguments)
    with pytest.raises(UserError, match="SentencePiece.*vocabulary"):
        FullTokenizer(None, spm_model_file="")
    model = GOLDEN.spm_model.read_bytes()
    damaged = model[:50_000], model.replace("▁the".encode(), b"\xff\x96\x81the", 1)
    for content in (b"", b"a text\n", b"\x00" * 40, b"\n\x05\n\x03abc", *damaged):
        (tmp_path / "other.model").write_bytes(content)
        with pytest.raises(UserError, match=r"other\.model"):
            FullTokenizer(None, spm_model_file=str(tmp_path / "other.model"))


@pytest.fixture(scope="module", params=["golden", "tiny", "wordpiece"])
def tokenizers(request, tmp_path_factory):
    if request.param != "wordpiece":
        is_golden = request.param == "golden"
        model = MODEL if is_golden else f"{request.getfixturevalue('squad_dir')}/spm.model"
        return [FullTokenizer(None, lower, model) for lower in (True, False)]
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    letters = [chr(code) for code in range(97, 123)]
    vocab = [*SPECIAL, *WORDS, *letters, *(f"##{letter}" for letter in letters)]
    path.write_text("\n".join(dict.fromkeys(vocab)), encoding="utf-8")
    return [FullTokenizer(str(path), lower) for lower in (True, False)]


@hypothesis.given(texts=st.lists(TEXTS, max_size=6))
@hypothesis.example(["x [CLS] y", "the [SEP], 1, 9,", ""])
@many
def test_encode_is_tokenize_for_any_number_of_texts(tokenizers, texts):
    for tokenizer in tokenizers:
        normalized = list(map(tokenizer.normalize, texts))
        tokens = map(tokenizer.tokenize, normalized)
        expected = list(map(tokenizer.convert_tokens_to_ids, tokens))
        assert tokenizer.encode(texts) == expected
        assert tokenizer.encode(normalized, normalized=True) == expected
        assert [tokenizer.encode([text])[0] for text in texts] == expected
        assert [tokenizer.encode_with_offsets(text).ids.tolist() for text in texts] == expected


def test_sizes_ids_and_hashes_never_change(golden_tokenizer, sp, write):
    # Hashes are as in the headers of existing features.
    text = "\n".join([*SPECIAL, "é"]).encode()
    words_tokenizer = FullTokenizer(write([*SPECIAL, "é"]))
    model = sp.serialized_model_proto()
    for tokenizer, size, content in ((golden_tokenizer, 1600, model), (words_tokenizer, 6, text)):
        assert tokenizer.size == size
        names = ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id")
        assert [getattr(tokenizer, name) for name in names] == [0, 1, 2, 3, 4]
        assert tokenizer.sha256 == hashlib.sha256(content).hexdigest()


def test_a_missing_special_piece_is_named_on_request(write):
    """Three are common to all models; they are checked before the vocabulary is used."""
    for missing in SPECIAL:
        tokenizer = FullTokenizer(write(piece for piece in SPECIAL if piece != missing))
        message = re.escape(f"vocab.txt has no piece {missing}; use a file from ALBERT or BERT")
        with pytest.raises(UserError, match=message):
            getattr(tokenizer, f"{missing[1:-1].lower()}_id")
        if missing not in ("[PAD]", "[MASK]"):
            with pytest.raises(UserError, match=message):
                tokenizer.check()
    beside_a_model = FullTokenizer(write(["<pad>", "<unk>", "[CLS]", "[SEP]", "▁the"]))
    with pytest.raises(UserError, match="SentencePiece model; pass that model with --spm_model"):
        beside_a_model.check()


UNCHANGED, CASED = {"do_lower_case": False}, "--do_lower_case=false"
STRIPS = "--strip_accents=false"


@pytest.mark.parametrize(
    ("words", "options", "warning", "remedy"),
    [
        ("the ##ed", {}, "", ""),
        ("the The ##ed", {}, "is cased: 1 of its 3 pieces have capitals, such as The", CASED),
        ("the The ##ed", UNCHANGED, "", ""),
        # One by chance, as in a vocabulary made with older tables of letters.
        (" ".join([*(f"w{i}" for i in range(200)), "Ა"]), {}, "", ""),
        ("中 文 。", {}, "", ""),
        ("서울 ##은 a", UNCHANGED, "", ""),
        ("서울 ##은 a", {}, "keeps accents: 2 of its 3 pieces, such as 서울", STRIPS),
        ("brücke für schön", {}, "keeps accents: 3 of its 3 pieces, such as brücke", STRIPS),
        ("brücke für schön", {"strip_accents": False}, "", ""),
        (None, {}, "", ""),
    ],
)
def test_pieces_that_no_text_gives_are_a_warning(write, log, words, options, warning, remedy):
    path = write([*SPECIAL, "[unused1]", *(words or "").split()])
    FullTokenizer(path, spm_model_file=None if words else MODEL, **options).check()
    warnings = log(logging.WARNING)
    assert len(warnings) == bool(warning)
    for line in warnings:
        assert f"{path if words else MODEL} {warning}" in line and f"pass {remedy}" in line


def test_a_flag_for_the_other_kind_of_tokenizer_is_an_error(write):
    for path, flag in ((None, "strip_accents"), (write([*SPECIAL, "a"]), "keep_accents")):
        tokenizer = FullTokenizer(path, False, None if path else MODEL, **{flag: True})
        with pytest.raises(UserError, match=f"--{flag}=true does not work with"):
            tokenizer.check()


@pytest.mark.parametrize(
    ("pieces", "begin"),
    [
        # The reference's list of punctuation has no apostrophe.
        ("▁the ▁ <unk> . n't 5 €", True),
        ("s S ... [MASK]", False),
        # Letters of any alphabet are inside words; in the reference they begin one.
        ("ß ür вет είς שלום سلام हिन्दी 국어", False),
        ("▁ür ▁вет ▁국어 вет5", True),
        # Without spaces between words, each piece is a word.
        ("中文 こ カナ ー ﾃｽ ไทย 中a", True),
    ],
)
def test_words_begin_at_marked_pieces(golden_tokenizer, pieces, begin):
    for piece in pieces.split():
        assert golden_tokenizer.begins_word(piece) == begin, piece


@hypothesis.given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
@many
def test_in_ascii_words_begin_as_in_the_reference(golden_tokenizer, text):
    """As `_is_start_piece_sp` of the reference decides, so that masks are equal."""
    signs = set('!"#$%&"()*+,-./:;?@[\\]^_`{|}~')
    inside = set("abcdefghijklmnopqrstuvwxyz") | signs
    for piece in (text, f"▁{text}"):
        starts = piece.startswith("▁") or piece.startswith("<") or piece in signs
        expected = starts or not all(char.lower() in inside for char in piece)
        assert golden_tokenizer.begins_word(piece) == expected
