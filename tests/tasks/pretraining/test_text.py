"""Text files: blocks, documents as ids, training of SentencePiece models, and faults."""

import itertools
import pathlib
import random

import pytest
import sentencepiece as spm

from albert import tokenization
from albert.core.errors import FlagError, UserError
from albert.tasks.pretraining import text
from albert.tasks.pretraining.sentencepiece_trainer import train_model
from albert.tasks.pretraining.text import (
    Span,
    encoded,
    matching_files,
    plan_blocks,
    read_lines,
    word_beginnings,
)


def contents(block):
    return [pathlib.Path(path).read_bytes()[start:end] for path, start, end in block]


@pytest.mark.parametrize("block_bytes", [1, 100, 3000, 10**6])
def test_blocks_cover_the_text_and_end_with_documents(tmp_path, block_bytes):
    rng, whole = random.Random(3), {}
    for number, line_end in enumerate(("\n", "\r\n", "\n")):
        documents = [
            line_end.join("word " * rng.randint(1, 9) for _ in range(rng.randint(1, 8)))
            for _ in range(60)
        ]
        path = tmp_path / f"{number}.txt"
        path.write_bytes((line_end * 2).join(documents).encode())
        whole[str(path)] = path.read_bytes()
    blocks = plan_blocks(list(whole), block_bytes)
    parts = (part for block in blocks for part in contents(block))
    assert b"".join(parts) == b"".join(whole.values())
    sizes = [sum(map(len, contents(block))) for block in blocks]
    assert all(size >= block_bytes for size in sizes[:-1])
    # Documents have less than 400 bytes.
    assert all(size < block_bytes + 400 for size in sizes)
    for path, _, end in (span for block in blocks for span in block):
        before = whole[path][:end].replace(b"\r", b"")
        assert end == len(whole[path]) or before.endswith(b"\n\n")


def test_an_endless_document_is_split_at_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "LONGEST_REST", 1000)
    path = tmp_path / "book.txt"
    path.write_text("a line of the book\n" * 1000)
    blocks = plan_blocks([str(path)], 500)
    assert len(blocks) > 30
    for block in blocks:
        (content,) = contents(block)
        assert content.endswith(b"\n") and content.startswith(b"a line")
    path.write_text("first\nsecond\n" + "word " * 1000)
    with pytest.raises(UserError, match=r"book\.txt, line 3: longer than 1000 bytes"):
        plan_blocks([str(path)], 10)
    path.write_text("")
    with pytest.raises(UserError, match=r"book\.txt is empty"):
        plan_blocks([str(path)], 10)
    # Small files share a block.
    path.write_text("one\ntwo\n")
    assert [len(block) for block in plan_blocks([str(path)] * 5, 20)] == [3, 2]


def test_lines_have_no_byte_order_mark_and_must_be_utf8(write):
    text = "\ufeffone\nzwölf".encode()
    assert read_lines(Span(write(text), 0, len(text))) == ["one", "zwölf"]
    path = write("first\nsecond\nzw\xf6lf\n".encode("latin-1"))
    for start in (0, 6):
        with pytest.raises(UserError, match="file, line 3: byte 0xf6 at offset 15 is not UTF-8"):
            read_lines(Span(path, start, 19))


NAMES = "made .made.x1y2 made.lock made.json"


class TestMatchingFiles:
    @pytest.fixture
    def made(self, tmp_path):
        """Makes a folder with records, their header and what an interrupted program leaves."""
        for name in (*NAMES.split(), "notes.json", "text"):
            (tmp_path / name).write_text("x")
        return tmp_path

    @pytest.mark.parametrize(
        ("patterns", "names"),
        [("made.lock t*", "made.lock text"), ("*", "made notes.json text"), (NAMES, NAMES)],
    )
    def test_globs_skip_hidden_files_locks_and_headers(self, made, patterns, names):
        paths = matching_files(",".join(f"{made}/{one}" for one in patterns.split()), "input_file")
        assert paths == [f"{made}/{name}" for name in names.split()]

    @pytest.mark.parametrize(
        ("pattern", "message"),
        [
            ("{}/none.txt", "--input_file: .* matches no file"),
            ("{}/made.*", r"made\.\* matches no file except hidden files, locks and headers"),
            ("{}", "is a folder"),
            (",", "--input_file=, names no file"),
        ],
    )
    def test_a_pattern_without_a_match_is_named(self, made, pattern, message):
        with pytest.raises((UserError, FlagError), match=message):
            matching_files(pattern.format(made), "input_file")


SPECIAL = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "(", ")", '"', "-", ".", "–", "£", "€"]


def test_special_pieces_have_the_ids_of_published_models(write):
    lines = [f"The {w} House (no. {k}) – “{w}”" for k, w in enumerate(["old", "café"] * 60)]
    path = write("\n".join(lines) + "\n\n")
    content = train_model([path], 45, num_threads=2)
    model = spm.SentencePieceProcessor(model_proto=content)
    pieces = [model.id_to_piece(i) for i in range(model.get_piece_size())]
    assert pieces[: len(SPECIAL)] == SPECIAL and len(pieces) == 45
    # Control symbols are no text; the model does not know accents and capitals.
    assert [model.is_control(i) for i in range(5)] == [True, False, True, True, True]
    assert 4 not in model.encode("[MASK]")
    assert not set("éTH") & set("".join(pieces[5:]))
    assert train_model([path], 45, num_threads=2) == content


@pytest.mark.parametrize(
    ("content", "size", "words"),
    [
        (b"one\nzw\xf6lf\n", 5000, r"text\.txt, line 2: .*not UTF-8"),
        (b"\n \n", 5000, r"text\.txt: no text"),
        (b"", 5000, r"text\.txt is empty"),
        (b"ab ab\n" * 50, 5000, r": Vocabulary size too high \(5000\)\. Please set"),
        (b"ab ab\n" * 50, 14, ": Vocabulary size is smaller .* Increase vocab_size"),
    ],
)
def test_a_tokenizer_that_cannot_be_trained_is_an_error(write, content, size, words):
    with pytest.raises(UserError, match=words):
        train_model([write(content, "text.txt")], size)


LINES = ["Axono ayono, in 1995, and 5,", "Ümlaut “quotes” — and ½, €5, 漢字 12,"]
LINES += ["", "  \t ", "\u3000", "   A   second   document. ", ""]


@pytest.fixture
def block(write):
    return lambda text: plan_blocks([write(text)], 10**6)[0]


def test_sentences_have_the_ids_and_words_of_the_tokenizer(tokenizer, block, tmp_path):
    documents = encoded(block("\n".join(LINES)), tokenizer)
    sentences = [documents.ids[a:b].tolist() for a, b in itertools.pairwise(documents.bounds)]
    tokens = [tokenizer.tokenize(tokenizer.normalize(line)) for line in LINES if line.strip()]
    assert sentences == list(map(tokenizer.convert_tokens_to_ids, tokens))
    assert documents.ranges == [(0, 2), (2, 3)]
    begins = word_beginnings(tokenizer)
    assert begins.tolist() == [tokenizer.begins_word(piece) for piece in tokenizer.vocab]
    assert 0 < begins.sum() < len(begins) == tokenizer.size
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "play", "##ing", "."]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens))
    tokenizer = tokenization.FullTokenizer(str(tmp_path / "vocab.txt"))
    assert word_beginnings(tokenizer).tolist() == [token != "##ing" for token in tokens]
    documents = encoded(block("Playing.\n\nPlay\n"), tokenizer)
    assert documents.ids.tolist() == [5, 6, 7, 5]
    assert documents.bounds == [0, 3, 4]


@pytest.mark.parametrize("word", ["bxono", "5,"], ids=["unknown", "a piece"])
def test_a_comma_after_a_digit_is_a_separate_token(tmp_path, block, word):
    """The id of an unknown token does not show that it ends in a digit."""
    options = {"vocab_size": 40, "hard_vocab_limit": False, "minloglevel": 2}
    # A model of this type has the piece with every version of SentencePiece.
    options |= {"model_type": "bpe", "split_by_unicode_script": False, "split_by_number": False}
    options |= {"control_symbols": ["[CLS]", "[SEP]", "[MASK]"], "model_prefix": f"{tmp_path}/spm"}
    sentences = iter(20 * ["axono ayono"] + 50 * [word])
    spm.SentencePieceTrainer.train(sentence_iterator=sentences, **options)
    tokenizer = tokenization.FullTokenizer(None, True, str(tmp_path / "spm.model"))
    ids = encoded(block("axono 5, ayono"), tokenizer).ids.tolist()
    careless = tokenizer.sp_model.encode("axono 5, ayono")
    assert ("▁5," in tokenizer.convert_ids_to_tokens(careless)) == (word == "5,")
    pieces = tokenizer.tokenize("axono 5, ayono")
    assert ids == tokenizer.convert_tokens_to_ids(pieces) != careless
