"""Both tokenizers: WordPiece by hand-made examples, SentencePiece by the shared model."""

import copy
import gzip
import hashlib
import json
import os
import sys
import unicodedata

import hypothesis
import pytest
import sentencepiece as spm
from hypothesis import strategies as st

import tokenization
from runtime.errors import UserError
from sentencepiece_text import ends_in_digit_comma

VOCAB = [
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "want",
    "##want",
    "##ed",
    "wa",
    "un",
    "runn",
    "##ing",
    ",",
    "##n",
    "Un",
]
many = hypothesis.settings(max_examples=300)


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("".join(token + "\n" for token in VOCAB), encoding="utf-8")
    return str(path)


# Words and punctuation.


@pytest.mark.parametrize(
    "text, lower, expected",
    [
        (" \tHeLLo!how  \n Are yoU?  ", True, ["hello", "!", "how", "are", "you", "?"]),
        (" \tHeLLo!how  \n Are yoU?  ", False, ["HeLLo", "!", "how", "Are", "yoU", "?"]),
        ("H\u00e9llo", True, ["hello"]),
        ("H\u00e9llo", False, ["H\u00e9llo"]),
        ("A\u030angstro\u0308m", True, ["angstrom"]),
        ("ah\u535a\u63a8zz", True, ["ah", "\u535a", "\u63a8", "zz"]),
        ("x\u3400y\U00020000z\uf900", False, ["x", "\u3400", "y", "\U00020000", "z", "\uf900"]),
        ("\u3053\u3093 \ud55c\uad6d", False, ["\u3053\u3093", "\ud55c\uad6d"]),
        ("a\x00b\ufffdc\u200dd\x7fe", True, ["abcde"]),
        ("a\u00a0b\u2003c\rd", True, ["a", "b", "c", "d"]),
        ("$5.00=a_b", True, ["$", "5", ".", "00", "=", "a", "_", "b"]),
        ("a\u2014b\u00bfc", True, ["a", "\u2014", "b", "\u00bf", "c"]),
        ("", True, []),
        (" \t ", True, []),
        ("caf\u00e9\xff".encode("latin-1") + b" ok", True, ["caf", "ok"]),
    ],
)
def test_basic_tokenizer(text, lower, expected):
    assert tokenization.BasicTokenizer(do_lower_case=lower).tokenize(text) == expected


def test_basic_tokenizer_lowers_by_default():
    assert tokenization.BasicTokenizer().tokenize("ABC") == ["abc"]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", []),
        ("unwanted running", ["un", "##want", "##ed", "runn", "##ing"]),
        ("unwantedX running", ["[UNK]", "runn", "##ing"]),
        ("want", ["want"]),
        ("wan", ["wa", "##n"]),
        ("ing", ["[UNK]"]),
        ("  un\tun\n", ["un", "un"]),
    ],
)
def test_wordpiece_takes_the_longest_known_piece(text, expected):
    vocab = {token: i for i, token in enumerate(VOCAB)}
    assert tokenization.WordpieceTokenizer(vocab=vocab).tokenize(text) == expected


def test_wordpiece_longest_word_and_unknown_token():
    tokenizer = tokenization.WordpieceTokenizer({"a", "##a"}, "<?>", max_input_chars_per_word=3)
    assert tokenizer.tokenize("aaa aaaa b") == ["a", "##a", "##a", "<?>", "<?>"]
    tokenizer = tokenization.WordpieceTokenizer({"a", "##a"})
    assert tokenizer.tokenize("a" * 200) == ["a"] + ["##a"] * 199
    assert tokenizer.tokenize("a" * 201) == ["[UNK]"]


@pytest.mark.parametrize(
    "make", [tokenization.FullTokenizer, tokenization.FullTokenizer.from_scratch]
)
def test_full_tokenizer_with_a_vocabulary(make, vocab_file):
    tokenizer = make(vocab_file, True, None)
    tokens = tokenizer.tokenize("UNwant\u00e9d,running")
    assert tokens == ["un", "##want", "##ed", ",", "runn", "##ing"]
    ids = tokenizer.convert_tokens_to_ids(tokens)
    assert ids == [7, 4, 5, 10, 8, 9]
    assert tokenizer.convert_ids_to_tokens(ids) == tokens
    assert tokenizer.vocab == {token: i for i, token in enumerate(VOCAB)}
    assert tokenizer.inv_vocab == dict(enumerate(VOCAB))


def test_full_tokenizer_that_keeps_case(vocab_file):
    tokenizer = tokenization.FullTokenizer(vocab_file, do_lower_case=False)
    assert tokenizer.tokenize("Unwanted UNwanted") == ["Un", "##want", "##ed", "[UNK]"]


def test_load_vocab_takes_the_first_word_of_a_line(tmp_path):
    """Ids are the numbers of lines, whatever stands in them; a Chinese vocabulary has U+2028."""
    path = tmp_path / "vocab.txt"
    lines = ["a\t-1.5", "", "b c\r", "\u2028", "\u3000", "b\u2028c", "\u00e9\xff"]
    path.write_bytes("\n".join(lines).encode())
    vocab = tokenization.load_vocab(str(path))
    expected = ["a", " ", "b", "\u2028", "\u3000", "b\u2028c", "\u00e9\xff"]
    assert list(vocab.items()) == [(token, i) for i, token in enumerate(expected)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["[UNK]", "a", "b", "a"], "lines 2 and 4 are both 'a'"),
        (["a", "", "b", ""], "lines 2 and 4 are both ' '"),
        (["[UNK]", "a", "b", "a "], "lines 2 and 4 are both 'a'"),
    ],
)
def test_a_token_that_a_vocabulary_has_twice(tmp_path, lines, message):
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(UserError, match=rf"vocab\.txt: {message}"):
        tokenization.FullTokenizer(str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[PAD]\n[UNK]\n".encode("utf-8-sig"), "begins with a byte order mark.*without it"),
        ("[PAD]\n[UNK]\nfür\n".encode("latin-1"), "line 3 is not UTF-8; convert the file"),
        ("[PAD]\n[UNK]\n".encode("utf-16"), "line 1 is not UTF-8; convert the file"),
    ],
)
def test_a_vocabulary_in_another_encoding(tmp_path, content, message):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=rf"vocab\.txt.*{message}"):
        tokenization.FullTokenizer(str(path))


def test_a_pipe_is_not_waited_for(tmp_path):
    path = str(tmp_path / "pipe")
    os.mkfifo(path)
    for arguments in ([path], [None, True, path]):
        with pytest.raises(UserError, match="pipe is not a regular file"):
            tokenization.FullTokenizer(*arguments)


def test_convert_functions():
    vocab = {"a": 4, "b": 7}
    assert tokenization.convert_tokens_to_ids(vocab, ["b", "a", "b"]) == [7, 4, 7]
    assert tokenization.convert_ids_to_tokens({4: "a", 7: "b"}, [7, 4, 7]) == ["b", "a", "b"]
    with pytest.raises(KeyError):
        tokenization.convert_tokens_to_ids(vocab, ["c"])


@pytest.mark.parametrize("convert", [tokenization.convert_to_unicode, tokenization.printable_text])
def test_text_from_strings_and_bytes(convert):
    assert convert("h\u00e9") == "h\u00e9"
    assert convert("h\u00e9".encode()) == "h\u00e9"
    assert convert(b"a\xffb") == "ab"
    with pytest.raises(ValueError, match="int"):
        convert(3)


# Classes of characters.


@pytest.mark.parametrize(
    "predicate, true, false",
    [
        (tokenization._is_whitespace, " \t\r\n\u00a0\u2003\u3000", "A-\x0b\u200b\u2028"),
        (
            tokenization._is_control,
            "\x05\x00\x0b\x7f\u200d\u200b\ufeff",
            "A \t\r\n\u00a0\U0001f4a9",
        ),
        (
            tokenization._is_punctuation,
            "-$`.+^~!/:@[|\u2014\u00bf\u3002",
            "A z09\t\x7f\u20ac\u00b4",
        ),
    ],
)
def test_predicates(predicate, true, false):
    assert [c for c in true if not predicate(c)] == []
    assert [c for c in false if predicate(c)] == []


def test_predicates_of_ascii():
    ascii_characters = [chr(i) for i in range(128)]
    punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
    assert "".join(filter(tokenization._is_punctuation, ascii_characters)) == punctuation
    assert "".join(filter(tokenization._is_whitespace, ascii_characters)) == "\t\n\r "
    controls = [c for c in ascii_characters if tokenization._is_control(c)]
    assert controls == [chr(i) for i in (*range(9), 11, 12, *range(14, 32), 127)]


# What SentencePiece is given.


def plain_preprocess_text(text, remove_space, lower):
    """The definition: the NFKD form of the whole text, without combining marks."""
    if remove_space:
        text = " ".join(text.split())
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return text.lower() if lower else text


@many
@hypothesis.given(st.text(st.characters(exclude_categories=["Cs"])), st.booleans(), st.booleans())
def test_preprocess_text_equals_its_definition(text, remove_space, lower):
    expected = plain_preprocess_text(text, remove_space, lower)
    assert tokenization.preprocess_text(text, remove_space, lower) == expected


def test_preprocess_text_of_all_of_unicode():
    """Once forward and once backward, so that every mark follows something else too."""
    characters = [chr(i) for i in range(sys.maxunicode + 1) if not 0xD800 <= i <= 0xDFFF]
    for text in ("".join(characters), "".join(reversed(characters))):
        assert tokenization.preprocess_text(text) == plain_preprocess_text(text, True, False)


def test_preprocess_text_by_default_keeps_case_and_removes_space():
    text = "  \u00c9t\u00e9\u00a0 \u00bd \n A "
    assert tokenization.preprocess_text(text) == "Ete 1\u20442 A"
    assert tokenization.preprocess_text(text, lower=True) == "ete 1\u20442 a"


surrogates = st.characters(categories=["Cs"])
others = st.characters(categories=["L", "Mn", "Zs"])


@many
@hypothesis.given(st.text(surrogates | others), st.booleans())
def test_preprocess_text_replaces_lone_surrogates(text, lower):
    """What comes out can be encoded; all else stays as it would be."""
    result = tokenization.preprocess_text(text, lower=lower)
    result.encode("utf-8")
    replaced = "".join("\ufffd" if 0xD800 <= ord(c) <= 0xDFFF else c for c in text)
    assert result == plain_preprocess_text(replaced, True, lower)


# SentencePiece.


@pytest.fixture(scope="module")
def model_file(shared):
    return str(shared / "data" / "spm" / "en8k.model")


@pytest.fixture(scope="module")
def of_model(model_file):
    return tokenization.FullTokenizer(None, True, model_file)


@pytest.fixture(scope="module")
def sp(model_file):
    """The model, loaded without the product."""
    return spm.SentencePieceProcessor(model_file=model_file)


@pytest.mark.parametrize(
    "make", [tokenization.FullTokenizer, tokenization.FullTokenizer.from_scratch]
)
def test_full_tokenizer_with_sentencepiece(make, model_file, sp):
    tokenizer = make(None, True, model_file)
    text = "the norman conquest of england"
    pieces = tokenizer.tokenize(text)
    assert pieces == sp.encode(text, out_type=str)
    ids = tokenizer.convert_tokens_to_ids(pieces)
    assert ids == sp.encode(text, out_type=int)
    assert tokenizer.convert_ids_to_tokens(ids) == pieces
    assert "".join(pieces).replace("\u2581", " ").strip() == text


def test_sentencepiece_vocabulary_goes_both_ways(model_file, sp):
    tokenizer = tokenization.FullTokenizer(None, spm_model_file=model_file)
    pieces = [sp.id_to_piece(i) for i in range(8000)]
    assert tokenizer.vocab == {piece: i for i, piece in enumerate(pieces)}
    assert tokenizer.inv_vocab == dict(enumerate(pieces))
    assert tokenizer.convert_tokens_to_ids(pieces) == list(range(8000))
    assert tokenizer.convert_ids_to_tokens(range(8000)) == pieces
    specials = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    assert tokenizer.convert_tokens_to_ids(specials) == [0, 1, 2, 3, 4]


def test_sentencepiece_unknown_piece_and_bytes(model_file):
    tokenizer = tokenization.FullTokenizer(None, spm_model_file=model_file)
    assert tokenizer.convert_tokens_to_ids(["no such piece", b"[CLS]"]) == [1, 2]


def test_sentencepiece_wins_over_a_vocabulary(model_file, vocab_file):
    tokenizer = tokenization.FullTokenizer(vocab_file, spm_model_file=model_file)
    assert tokenizer.tokenize("unwanted") != ["un", "##want", "##ed"]
    assert len(tokenizer.vocab) == 8000


@pytest.mark.parametrize("text", ["1, 2", "of 1, and", "9, 1", "in 1, 9, 1, we", "x 9,"])
def test_comma_after_a_digit_is_a_piece_of_its_own(text, sp):
    raw = sp.encode(text, out_type=str)
    assert {"\u25811,", "\u25819,"} & set(raw), "this text does not come to the rule"
    expected = []
    for piece in raw:
        if piece in ("\u25811,", "\u25819,"):
            expected += [*sp.encode(piece[:-1].replace("\u2581", ""), out_type=str), ","]
        else:
            expected.append(piece)
    assert tokenization.encode_pieces(sp, text) == expected
    assert tokenization.encode_pieces(sp, text, return_unicode=False) == expected
    assert tokenization.encode_ids(sp, text) == [sp.piece_to_id(piece) for piece in expected]


class WrittenModel:
    """A model whose segmentations are written down: texts that are not raise KeyError."""

    def __init__(self, pieces):
        self._pieces = pieces

    def encode(self, text, out_type):
        assert out_type is str
        return self._pieces[text]


def test_piece_with_a_comma_is_cut_again_without_its_underline():
    model = WrittenModel(
        {
            "in 1995, 20,": ["\u2581in", "\u25811995,", "\u25812", "0,"],
            "1995": ["\u258119", "95"],
            "0": ["\u25810"],
        }
    )
    assert tokenization.encode_pieces(model, "in 1995, 20,") == [
        *("\u2581in", "\u258119", "95", ","),
        *("\u25812", "\u25810", ","),
    ]


@pytest.mark.parametrize(
    "text", ["", "1,000 and 20,000", "a, b", ",", ", 1", "1 ,", "1.", "\u00b2"]
)
def test_other_pieces_stay_whole(text, sp):
    assert tokenization.encode_pieces(sp, text) == sp.encode(text, out_type=str)
    assert tokenization.encode_ids(sp, text) == sp.encode(text, out_type=int)


@pytest.mark.parametrize(
    "piece, expected",
    [
        ("\u25811995,", True),
        ("1,", True),
        ("\u0663,", True),
        (",", False),
        ("a,", False),
        ("1", False),
        ("1,0", False),
        ("\u2581,", False),
        ("", False),
    ],
)
def test_which_pieces_end_in_digit_and_comma(piece, expected):
    assert ends_in_digit_comma(piece) is expected


def test_sampled_pieces_spell_the_text(sp):
    text = "the norman conquest of england"
    draws = {tuple(tokenization.encode_pieces(sp, text, sample=True)) for _ in range(20)}
    assert len(draws) > 1
    assert {"".join(pieces).replace("\u2581", " ").strip() for pieces in draws} == {text}


def read_squad(path):
    """Paragraph and question by id, in file order."""
    return {
        qa["id"]: (paragraph["context"], qa["question"])
        for article in json.loads(path.read_text(encoding="utf-8"))["data"]
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    }


def test_golden_ids_of_questions_and_paragraphs(shared, sp):
    """[CLS] question [SEP] paragraph [SEP], of every first span in the golden features."""
    texts = read_squad(shared / "data" / "squad" / "dev-v1.1.json")
    with gzip.open(shared / "golden" / "features-dev-v1.1.jsonl.gz", "rt") as lines:
        features = [json.loads(line) for line in lines]
    spans = [f for f in features if f["doc_span_index"] == 0]
    assert len(spans) == 608
    for feature in spans:
        paragraph, question = (
            tokenization.encode_ids(sp, tokenization.preprocess_text(text, lower=True))
            for text in texts[feature["qas_id"]]
        )
        segment, ids = feature["n_segment0"], feature["input_ids"]
        assert ids[:segment] == [2, *question[:64], 3]
        assert ids[segment:] == [*paragraph[: 384 - segment - 1], 3]


# Errors.


def test_missing_files_are_errors_with_their_paths(tmp_path):
    path = str(tmp_path / "absent.file")
    for arguments in ({"vocab_file": path}, {"vocab_file": None, "spm_model_file": path}):
        with pytest.raises(UserError, match=r"absent\.file"):
            tokenization.FullTokenizer(**arguments)


def test_folders_are_errors_with_their_paths(tmp_path):
    for arguments in ([str(tmp_path)], [None, True, str(tmp_path)]):
        with pytest.raises(UserError, match=tmp_path.name):
            tokenization.FullTokenizer(*arguments)


@pytest.mark.parametrize("content", [b"", b"a text\n", b"\x00" * 40, b"\n\x05\n\x03abc"])
def test_file_that_is_no_model_is_an_error_with_its_path(content, tmp_path):
    path = tmp_path / "other.model"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"other\.model"):
        tokenization.FullTokenizer(None, spm_model_file=str(path))


def test_cut_model_is_an_error(model_file, tmp_path):
    path = tmp_path / "cut.model"
    with open(model_file, "rb") as whole:
        path.write_bytes(whole.read(50_000))
    with pytest.raises(UserError, match=r"cut\.model"):
        tokenization.FullTokenizer(None, spm_model_file=str(path))


@pytest.mark.parametrize("nothing", [None, ""])
def test_neither_file_is_an_error(nothing):
    with pytest.raises(UserError, match="SentencePiece.*vocabulary"):
        tokenization.FullTokenizer(nothing, spm_model_file=nothing)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (0x4E00, 0x9FFF),
        (0x3400, 0x4DBF),
        (0x20000, 0x2A6DF),
        (0x2A700, 0x2B73F),
        (0x2B740, 0x2B81F),
        (0x2B820, 0x2CEAF),
        (0xF900, 0xFAFF),
        (0x2F800, 0x2FA1F),
    ],
)
def test_cjk_characters_are_words_of_their_own(first, last):
    """All that the reference counts as such, by the ends of each block."""
    tokenize = tokenization.BasicTokenizer(do_lower_case=False).tokenize
    for char in (chr(first), chr(last)):
        assert tokenize(f"a{char}b") == ["a", char, "b"]


@pytest.mark.parametrize(
    "code", [0x33FF, 0x4DC0, 0xA000, 0x2A6E0, 0x2CEB0, 0xF8FF, 0xFB00, 0x2F7FF, 0x2FA20]
)
def test_what_lies_between_cjk_blocks_is_part_of_a_word(code):
    tokenize = tokenization.BasicTokenizer(do_lower_case=False).tokenize
    assert tokenize(f"a{chr(code)}b") == [f"a{chr(code)}b"]


# One object for the tasks.

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ANY_TEXTS = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=()), max_size=12),
        st.lists(
            st.sampled_from(["the", " King", "1,", "9, ", "1995,", " [CLS]", "é", "¨", "un"]),
            max_size=8,
        ).map("".join),
    ),
    max_size=6,
)


@pytest.fixture(scope="module", params=["en8k", "tiny", "wordpiece"])
def tokenizers(request, tmp_path_factory):
    """Tokenizers of one kind: one that lower-cases and one that does not."""
    if request.param != "wordpiece":
        model = str(request.getfixturevalue("squad_dir") / "spm.model")
        if request.param == "en8k":
            model = request.getfixturevalue("model_file")
        return [tokenization.FullTokenizer(None, lower, model) for lower in (True, False)]
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    letters = [chr(code) for code in range(97, 123)]
    vocab = [*SPECIAL, *VOCAB[3:], *letters, *(f"##{letter}" for letter in letters)]
    path.write_text("\n".join(dict.fromkeys(vocab)), encoding="utf-8")
    return [tokenization.FullTokenizer(str(path), lower) for lower in (True, False)]


@hypothesis.given(texts=ANY_TEXTS)
@hypothesis.example(["x [CLS] y", "the [SEP], 1, 9,", ""])
@many
def test_encode_is_tokenize_for_any_number_of_texts(tokenizers, texts):
    for tokenizer in tokenizers:
        normalized = list(map(tokenizer.normalize, texts))
        expected = [
            tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text)) for text in normalized
        ]
        assert tokenizer.encode(texts) == expected
        assert tokenizer.encode(normalized, normalized=True) == expected
        assert [tokenizer.encode([text])[0] for text in texts] == expected


def test_encode_takes_the_case_from_the_tokenizer(tokenizers):
    lower, cased = tokenizers
    assert lower.encode(["Un"]) == lower.encode(["un"]) != cased.encode(["Un"])


def test_sizes_ids_and_hashes(model_file, sp, tmp_path):
    tokenizer = tokenization.FullTokenizer(None, True, model_file)
    assert tokenizer.size == 8000
    names = ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id")
    assert [getattr(tokenizer, name) for name in names] == [0, 1, 2, 3, 4]
    # As in the headers of features that were made before.
    assert tokenizer.sha256 == hashlib.sha256(sp.serialized_model_proto()).hexdigest()
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in [*SPECIAL, "é"]), encoding="utf-8")
    tokenizer = tokenization.FullTokenizer(str(path))
    assert tokenizer.size == 6
    assert [getattr(tokenizer, name) for name in names] == [0, 1, 2, 3, 4]
    content = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\né"
    assert tokenizer.sha256 == hashlib.sha256(content.encode()).hexdigest()


@pytest.mark.parametrize("name", ["pad", "unk", "cls", "sep", "mask"])
def test_a_special_piece_that_is_missing_is_named_when_it_is_asked_for(tmp_path, name):
    (tmp_path / "vocab.txt").write_text("word")
    tokenizer = tokenization.FullTokenizer(str(tmp_path / "vocab.txt"))
    with pytest.raises(UserError, match=rf"vocab\.txt has no piece \[{name.upper()}\]"):
        getattr(tokenizer, f"{name}_id")


def test_encode_without_a_piece_for_the_unknown(tmp_path):
    (tmp_path / "vocab.txt").write_text("word")
    with pytest.raises(UserError, match=r"vocab\.txt has no piece \[UNK\]"):
        tokenization.FullTokenizer(str(tmp_path / "vocab.txt")).encode(["other"])


def test_encode_with_offsets(model_file):
    for lower in (True, False):
        tokenizer = tokenization.FullTokenizer(None, lower, model_file)
        text = "The King  of 1, and"
        tokens = tokenizer.encode_with_offsets(text)
        assert [tokens.ids.tolist()] == tokenizer.encode([text])
        # The end of the text is that of its last token.
        assert text[tokens.starts[-1] : tokens.ends[-1] + 1] == " and"


def test_encode_with_offsets_of_wordpiece(vocab_file):
    tokenizer = tokenization.FullTokenizer(vocab_file)
    text = " Unwant\u00e9d,  Running!"
    tokens = tokenizer.encode_with_offsets(text)
    assert [tokens.ids.tolist()] == tokenizer.encode([text])
    spans = zip(tokens.starts, tokens.ends, strict=True)
    spelled = [text[first : last + 1] for first, last in spans]
    assert spelled == ["Un", "want", "\u00e9d", ",", "Runn", "ing", "!"]


def test_the_case_of_a_copy_is_its_own(vocab_file):
    """The functions of the reference are told the case beside the tokenizer."""
    lower = tokenization.FullTokenizer(vocab_file)
    cased = copy.copy(lower)
    assert lower.encode(["Unwanted"]) == [[7, 4, 5]]
    cased.do_lower_case = False
    assert cased.encode(["Unwanted"]) == [[12, 4, 5]]
    assert cased.encode_with_offsets("Unwanted").ids.tolist() == [12, 4, 5]
    assert cased.tokenize("Unwanted") == ["Un", "##want", "##ed"]
    assert lower.encode(["Unwanted"]) == [[7, 4, 5]]


class TestCheck:
    """What is wrong with a vocabulary, before anything is made with it."""

    @staticmethod
    def load(folder, words, lower=True):
        (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
        return tokenization.FullTokenizer(str(folder / "vocab.txt"), lower)

    @pytest.fixture
    def warnings(self, monkeypatch):
        found = []
        monkeypatch.setattr(
            tokenization.tf.logging, "warning", lambda text, *values: found.append(text % values)
        )
        return found

    @pytest.mark.parametrize("missing", ["[UNK]", "[CLS]", "[SEP]"])
    def test_a_special_piece_is_missing(self, tmp_path, missing):
        tokenizer = self.load(tmp_path, [piece for piece in SPECIAL if piece != missing])
        message = rf"vocab\.txt has no piece \{missing}; is it one of ALBERT or BERT\?"
        with pytest.raises(UserError, match=message):
            tokenizer.check()

    def test_the_vocabulary_beside_a_sentencepiece_model(self, tmp_path):
        tokenizer = self.load(tmp_path, ["<pad>", "<unk>", "[CLS]", "[SEP]", "▁the"])
        with pytest.raises(UserError, match=r"SentencePiece model: give that \(--spm_model_file\)"):
            tokenizer.check()

    @pytest.mark.parametrize(
        ("words", "lower", "warning"),
        [
            (["the", "##ed"], True, None),
            (
                ["the", "The", "##ed"],
                True,
                "is cased: 1 of its 3 pieces have capitals, such as The",
            ),
            (["the", "The", "##ed"], False, None),
            (["the", "##ed"], False, "is uncased: with --do_lower_case=false words with capitals"),
            # One by chance, as in a vocabulary made with tables of letters that have grown since.
            ([*(f"w{i}" for i in range(200)), "Ა"], True, None),
            (["中", "文", "。"], False, None),
            (["中", "文", "。"], True, None),
        ],
    )
    def test_the_case(self, tmp_path, warnings, words, lower, warning):
        self.load(tmp_path, [*SPECIAL, "[unused1]", *words], lower).check()
        assert len(warnings) == (warning is not None)
        if warning:
            assert f"{tmp_path}/vocab.txt {warning}" in warnings[0]
            assert f"give --do_lower_case={str(not lower).lower()}" in warnings[0]

    def test_the_case_of_a_sentencepiece_model(self, model_file, warnings):
        tokenization.FullTokenizer(None, False, model_file).check()
        assert not warnings


@pytest.mark.parametrize(
    ("piece", "begins"),
    [
        ("▁the", True),
        ("▁", True),
        ("<unk>", True),
        (".", True),
        ("s", False),
        ("S", False),
        ("...", False),
        # The reference's list of signs has no apostrophe.
        ("n't", True),
        ("5", True),
        ("€", True),
        ("[MASK]", False),
        # Letters of any alphabet are inside words; in the reference they begin one.
        *((word, False) for word in ("ß", "ür", "вет", "είς", "שלום", "سلام", "हिन्दी", "국어")),
        *((f"▁{word}", True) for word in ("ür", "вет", "국어")),
        ("вет5", True),
        # Without spaces between words a piece is one.
        *((word, True) for word in ("中文", "こ", "カナ", "ー", "ﾃｽ", "ไทย", "中a")),
    ],
)
def test_where_words_begin(of_model, piece, begins):
    assert of_model.begins_word(piece) == begins


@hypothesis.given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
@many
def test_where_words_begin_in_ascii(of_model, text):
    """As `_is_start_piece_sp` of the reference decides, so that masks are the same."""
    signs = set('!"#$%&"()*+,-./:;?@[\\]^_`{|}~')
    inside = set("abcdefghijklmnopqrstuvwxyz") | signs
    for piece in (text, f"▁{text}"):
        starts = piece.startswith("▁") or piece.startswith("<") or piece in signs
        expected = starts or not all(char.lower() in inside for char in piece)
        assert of_model.begins_word(piece) == expected


def test_where_wordpiece_words_begin(vocab_file):
    tokenizer = tokenization.FullTokenizer(vocab_file)
    assert {t for t in VOCAB if not tokenizer.begins_word(t)} == {t for t in VOCAB if "##" in t}
