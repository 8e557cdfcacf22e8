"""Text files: splitting into blocks, training of SentencePiece models, and faults."""

from __future__ import annotations

import pathlib
import random

import pytest
import sentencepiece as spm

from albert.core.errors import FlagError, UserError
from albert.data.cached_file import CachedFile
from albert.tasks.pretraining import text
from albert.tasks.pretraining.sentencepiece_trainer import PieceOptions, train_model
from albert.tasks.pretraining.text import Span, matching_files, plan_blocks, read_lines


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


def test_small_files_share_a_block(tmp_path):
    paths = [tmp_path / f"{number}.txt" for number in range(5)]
    for path in paths:
        path.write_text("one\ntwo\n")
    assert [len(block) for block in plan_blocks(list(map(str, paths)), 20)] == [3, 2]


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


def test_lines_have_no_byte_order_mark_and_must_be_utf8(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("\ufeffone\nzwölf".encode())
    assert read_lines(Span(str(path), 0, path.stat().st_size)) == ["one", "zwölf"]
    path.write_bytes("first\nsecond\nzw\xf6lf\n".encode("latin-1"))
    for start in (0, 6):
        message = r"text\.txt, line 3: byte 0xf6 at offset 15 is not UTF-8"
        with pytest.raises(UserError, match=message):
            read_lines(Span(str(path), start, path.stat().st_size))


NAMES = "made .made.x1y2 made.lock made.json"


class TestMatchingFiles:
    @pytest.fixture
    def made(self, tmp_path):
        """Makes a folder with a text, a program's output from it, and other programs' files."""
        derived = CachedFile(str(tmp_path / "made"), {}, [str(tmp_path / "companion")])
        with derived.building() as (names, _):
            for name in names:
                pathlib.Path(name).write_text("x")
        for name in ("text", "text.json", ".made.x1y2", "made.lock"):
            (tmp_path / name).write_text("x")
        return tmp_path

    @pytest.mark.parametrize(
        ("patterns", "with_derived", "names"),
        [
            ("made.lock t* .m*", False, "made.lock text text.json .made.x1y2"),
            ("*", False, "text text.json"),
            ("*", True, "companion made text text.json"),
            (NAMES, False, NAMES),
        ],
    )
    def test_globs_skip_derived_files_and_names_do_not(self, made, patterns, with_derived, names):
        flag = ",".join(f"{made}/{pattern}" for pattern in patterns.split())
        paths = matching_files(flag, "input_file", with_derived=with_derived)
        assert paths == [f"{made}/{name}" for name in names.split()]

    @pytest.mark.parametrize(
        ("pattern", "message"),
        [
            ("{}/none.txt", "--input_file: .* matches no file"),
            ("{}/ma*", r"ma\* matches no file except files that programs have written"),
            ("{}", "is a folder"),
            (",", "--input_file=, names no file"),
        ],
    )
    def test_a_pattern_without_a_match_is_named(self, made, pattern, message):
        with pytest.raises((UserError, FlagError), match=message):
            matching_files(pattern.format(made), "input_file")


SPECIAL = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", "(", ")", '"', "-", ".", "–", "£", "€"]


def test_special_pieces_have_the_ids_of_published_models(tmp_path):
    lines = [f"The {w} House (no. {k}) – “{w}”" for k, w in enumerate(["old", "café"] * 60)]
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    path = str(tmp_path / "text.txt")
    content = train_model([path], PieceOptions(45, num_threads=2))
    model = spm.SentencePieceProcessor(model_proto=content)
    pieces = [model.id_to_piece(i) for i in range(model.get_piece_size())]
    assert pieces[: len(SPECIAL)] == SPECIAL and len(pieces) == 45
    # Control symbols are no text; the model does not know accents and capitals.
    assert [model.is_control(i) for i in range(5)] == [True, False, True, True, True]
    assert 4 not in model.encode("[MASK]")
    assert not set("éTH") & set("".join(pieces[5:]))
    assert train_model([path], PieceOptions(45, num_threads=2)) == content


@pytest.mark.parametrize(
    ("content", "size", "error", "words"),
    [
        (b"one\nzw\xf6lf\n", 5000, UserError, r"text\.txt, line 2: .*not UTF-8"),
        (b"\n \n", 5000, UserError, r"text\.txt: no text"),
        (b"", 5000, UserError, r"text\.txt is empty"),
        (b"ab ab\n" * 50, 5000, FlagError, "--vocab_size 5000 is more than the"),
        (b"ab ab\n" * 50, 14, FlagError, "--vocab_size 14 is less than"),
    ],
)
def test_a_tokenizer_that_cannot_be_trained_is_an_error(tmp_path, content, size, error, words):
    (tmp_path / "text.txt").write_bytes(content)
    with pytest.raises(error, match=words):
        train_model([str(tmp_path / "text.txt")], PieceOptions(size))
