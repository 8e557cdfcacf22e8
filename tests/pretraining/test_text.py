"""Text files cut into blocks, and what is wrong with files."""

from __future__ import annotations

import pathlib
import random

import pytest

from pretraining import text
from pretraining.text import Span, matching_files, plan_blocks, read_lines
from runtime.data.cached_file import CachedFile
from runtime.errors import FlagError, UserError


def content_of(path):
    return pathlib.Path(path).read_bytes()


def contents(block):
    return [content_of(path)[start:end] for path, start, end in block]


@pytest.fixture
def files(tmp_path):
    """Three files of documents of random length, some with Windows line ends."""
    rng = random.Random(3)
    paths = []
    for number, line_end in enumerate(("\n", "\r\n", "\n")):
        documents = [
            line_end.join("word " * rng.randint(1, 9) for _ in range(rng.randint(1, 8)))
            for _ in range(60)
        ]
        path = tmp_path / f"{number}.txt"
        path.write_bytes((line_end * 2).join(documents).encode())
        paths.append(str(path))
    return paths


@pytest.mark.parametrize("block_bytes", [1, 100, 3000, 10**6])
def test_blocks_are_all_of_the_text_in_order(files, block_bytes):
    blocks = plan_blocks(files, block_bytes)
    together = b"".join(part for block in blocks for part in contents(block))
    assert together == b"".join(map(content_of, files))
    sizes = [sum(map(len, contents(block))) for block in blocks]
    assert all(size >= block_bytes for size in sizes[:-1])
    # Documents have less than 400 bytes.
    assert all(size < block_bytes + 400 for size in sizes)


def test_blocks_end_where_documents_do(files):
    for block in plan_blocks(files, 300):
        for path, _, end in block:
            content = content_of(path)
            assert end == len(content) or content[:end].replace(b"\r", b"").endswith(b"\n\n")


def test_small_files_share_a_block(tmp_path):
    paths = []
    for number in range(5):
        path = tmp_path / f"{number}.txt"
        path.write_text("one\ntwo\n")
        paths.append(str(path))
    assert [len(block) for block in plan_blocks(paths, 20)] == [3, 2]


def test_a_document_without_end_is_cut_at_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "LONGEST_REST", 1000)
    path = tmp_path / "book.txt"
    path.write_text("a line of the book\n" * 1000)
    blocks = plan_blocks([str(path)], 500)
    assert len(blocks) > 30
    for block in blocks:
        (content,) = contents(block)
        assert content.endswith(b"\n") and content.startswith(b"a line")


def test_a_line_without_end_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "LONGEST_REST", 1000)
    path = tmp_path / "line.txt"
    path.write_text("first\nsecond\n" + "word " * 1000)
    with pytest.raises(UserError, match=r"line\.txt, line 3: longer than 1000 bytes"):
        plan_blocks([str(path)], 10)


def test_an_empty_file_is_named(tmp_path):
    (tmp_path / "a.txt").write_text("text\n")
    (tmp_path / "b.txt").write_text("")
    with pytest.raises(UserError, match=r"b\.txt is empty"):
        plan_blocks([str(tmp_path / "a.txt"), str(tmp_path / "b.txt")], 100)


def test_lines_without_byte_order_mark(tmp_path):
    path = tmp_path / "bom.txt"
    path.write_bytes("\ufeffone\nzwölf".encode())
    assert read_lines(Span(str(path), 0, path.stat().st_size)) == ["one", "zwölf"]


@pytest.mark.parametrize("start", [0, 6])
def test_text_that_is_not_utf8_is_located(tmp_path, start):
    path = tmp_path / "latin.txt"
    path.write_bytes("first\nsecond\nzw\xf6lf\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"latin\.txt, line 3: byte 0xf6 at offset 15 is not UTF-8"):
        read_lines(Span(str(path), start, path.stat().st_size))


class TestMatchingFiles:
    def test_globs_and_names_in_order(self, tmp_path):
        for name in ("b.txt", "a.txt", "c.dat"):
            (tmp_path / name).write_text("x")
        found = matching_files(f"{tmp_path}/c.dat,{tmp_path}/*.txt", "input_file")
        assert found == [f"{tmp_path}/{name}" for name in ("c.dat", "a.txt", "b.txt")]

    @pytest.fixture
    def made(self, tmp_path):
        """A folder with a text, what a program has made of it, and what others have left."""
        derived = CachedFile(str(tmp_path / "made"), {}, [str(tmp_path / "companion")])
        with derived.building() as (names, _):
            for name in names:
                pathlib.Path(name).write_text("x")
        for name in ("text", "text.json", ".made.x1y2", "made.lock"):
            (tmp_path / name).write_text("x")
        return tmp_path

    @pytest.mark.parametrize(
        ("with_derived", "names"),
        [(False, ["text", "text.json"]), (True, ["companion", "made", "text", "text.json"])],
    )
    def test_globs_leave_out_what_is_no_input(self, made, with_derived, names):
        found = matching_files(f"{made}/*", "input_file", with_derived=with_derived)
        assert found == [f"{made}/{name}" for name in names]

    def test_names_are_taken_as_they_are(self, made):
        names = [f"{made}/{name}" for name in ("made", ".made.x1y2", "made.lock", "made.json")]
        assert matching_files(",".join(names), "input_file") == names
        assert matching_files(f"{made}/.m*", "input_file") == [f"{made}/.made.x1y2"]

    def test_a_glob_of_nothing_else(self, made):
        with pytest.raises(UserError, match=r"ma\* matches no file but what programs have made"):
            matching_files(f"{made}/ma*", "input_file")

    @pytest.mark.parametrize("pattern", ["none.txt", "*.none", "no/such/folder/*"])
    def test_what_matches_nothing_is_named(self, tmp_path, pattern):
        with pytest.raises(UserError, match=r"--input_file: .* matches no file"):
            matching_files(f"{tmp_path}/{pattern}", "input_file")

    def test_a_folder_is_no_file(self, tmp_path):
        with pytest.raises(UserError, match="is a folder"):
            matching_files(str(tmp_path), "input_file")

    def test_no_name(self):
        with pytest.raises(FlagError, match="--input_file=, names no file"):
            matching_files(",", "input_file")
