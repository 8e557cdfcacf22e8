"""Rows of TSV and JSON lines: what counts as text, and where a fault is."""

import os

import pytest

from runtime.data.rows import read_json_lines, read_tsv, read_tsv_records
from runtime.errors import UserError


@pytest.fixture
def write(tmp_path):
    def write(content):
        (tmp_path / "file.tsv").write_bytes(content)
        return str(tmp_path / "file.tsv")

    return write


def columns(path):
    return [row for _, row in read_tsv(path)]


def test_quotation_marks_are_characters(write):
    path = write(b'1\t"an open one\t""two"" \'\n2\t"\t"\n')
    assert columns(path) == [["1", '"an open one', '""two"" \''], ["2", '"', '"']]


def test_line_ends_and_byte_order_mark(write):
    plain = columns(write("é\tb\nc\td\n".encode()))
    assert plain == [["é", "b"], ["c", "d"]]
    for content in ("\ufeffé\tb\r\nc\td\r\n", "\ufeffé\tb\nc\td", "é\tb\r\nc\td\r\n\r\n\n"):
        assert columns(write(content.encode())) == plain


def test_only_newlines_end_a_line(write):
    """Python's splitlines() knows a dozen more."""
    text = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\rh"
    assert columns(write(f"{text}\t1\n".encode())) == [[text, "1"]]


def test_empty_columns_stay(write):
    assert columns(write(b"a\t\t\tb\n\tc\t\n")) == [["a", "", "", "b"], ["", "c", ""]]


def test_places_count_empty_lines(write):
    rows = list(read_tsv(write(b"a\n\nb\n")))
    assert [(place.line, row) for place, row in rows] == [(1, ["a"]), (2, [""]), (3, ["b"])]


@pytest.mark.parametrize("content", [b"", b"\n\r\n", b"\xef\xbb\xbf"])
def test_nothing_in_it(write, content):
    assert columns(write(content)) == []
    assert list(read_tsv_records(write(content))) == []


def test_not_utf8_names_line_and_byte(write):
    path = write("ok\tü\n".encode() + "fü\tb\n".encode("latin-1"))
    with pytest.raises(UserError, match=r"file\.tsv, line 2: byte 2 .*not UTF-8"):
        list(read_tsv(path))


@pytest.mark.parametrize("reader", [read_tsv, read_tsv_records, read_json_lines])
def test_a_file_that_cannot_be_read(tmp_path, reader):
    with pytest.raises(UserError, match="missing cannot be read: No such file"):
        list(reader(str(tmp_path / "missing")))
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        list(reader(str(tmp_path)))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="pipe is not a regular file"):
        list(reader(str(tmp_path / "pipe")))


class TestRecords:
    def test_columns_by_name(self, write):
        records = list(read_tsv_records(write(b"label\ttext_a\nyes\ta b\nno\t\n")))
        assert [(place.line, record) for place, record in records] == [
            (2, {"label": "yes", "text_a": "a b"}),
            (3, {"label": "no", "text_a": ""}),
        ]

    @pytest.mark.parametrize("row", [b"yes", b"yes\ta\tb"])
    def test_another_number_of_columns(self, write, row):
        with pytest.raises(UserError, match=r"line 3: \d columns, the header has 2"):
            list(read_tsv_records(write(b"label\ttext_a\nno\ta\n" + row + b"\n")))

    def test_json_lines(self, write):
        path = write(b'{"text_a": "a\\tb"}\r\n{"text_a": "c", "label": 1}')
        assert [(place.line, record) for place, record in read_json_lines(path)] == [
            (1, {"text_a": "a\tb"}),
            (2, {"text_a": "c", "label": 1}),
        ]

    def test_nested_too_deeply(self, write):
        with pytest.raises(UserError, match="line 1 is not JSON.*: nested too deeply"):
            list(read_json_lines(write(b"[" * 200_000)))

    @pytest.mark.parametrize("line", [b"{", b"[1]", b"text", b""])
    def test_no_json_object(self, write, line):
        with pytest.raises(UserError, match="line 2(: no| is not) JSON"):
            list(read_json_lines(write(b"{}\n" + line + b"\n{}")))
