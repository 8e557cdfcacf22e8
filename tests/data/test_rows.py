"""Rows of TSV and JSON lines: what counts as text, and the position of a fault."""

import os

import pytest

from albert.core.errors import UserError
from albert.data.tables import find_table, read_json_lines, read_tsv

SEPARATORS = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\rh"


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        # Quotation marks are characters.
        ('1\t"an open one\t""two"" \'\n', [["1", '"an open one', '""two"" \'']]),
        # Line ends and a byte order mark; Python's splitlines() splits at many more characters.
        ("\ufeffé\tb\r\nc\td", [["é", "b"], ["c", "d"]]),
        *((f"é\tb{end}c\td{end}{end}", [["é", "b"], ["c", "d"]]) for end in ("\n", "\r\n")),
        (f"{SEPARATORS}\t1\n", [[SEPARATORS, "1"]]),
        ("a\t\t\tb\n\tc\t\n", [["a", "", "", "b"], ["", "c", ""]]),
        *((text, []) for text in ("", "\n\r\n", "\ufeff")),
        ("a\n\nb\n", [["a"], [""], ["b"]]),
    ],
)
def test_tsv_is_split_at_tabs_and_line_ends_only(write, content, rows):
    """Empty lines count, except at the end."""
    lines = [(location.line, row) for location, row in read_tsv(write(content))]
    assert lines == list(enumerate(rows, start=1))


@pytest.mark.parametrize("reader", [read_tsv, read_json_lines, find_table])
def test_an_unreadable_file_is_one_line(tmp_path, reader):
    os.mkfifo(tmp_path / "pipe")
    for name, message in (
        ("missing", "missing cannot be read: No such file"),
        ("", "cannot be read: Is a directory"),
        ("pipe", "pipe is not a regular file"),
    ):
        with pytest.raises(UserError, match=message):
            list(reader(str(tmp_path / name)))


def test_json_lines_are_read_with_their_line_numbers(write):
    path = write('{"text_a": "a\\tb"}\r\n{"text_a": "c", "label": 1}')
    lines = [(location.line, record) for location, record in read_json_lines(path)]
    assert lines == [(1, {"text_a": "a\tb"}), (2, {"text_a": "c", "label": 1})]


@pytest.mark.parametrize(
    ("reader", "content", "message"),
    [
        (read_tsv, "ok\tü\n".encode() + b"f\xfc\tb\n", "file, line 2: byte 2 .*not UTF-8"),
        (read_json_lines, "[" * 200_000, "line 1 cannot be parsed: its JSON is nested too deeply"),
        *((read_json_lines, f"{{}}\n{x}\n{{}}", "line 2 is not JSON") for x in ("{", "text", "")),
        (read_json_lines, "{}\n[1]\n{}", "line 2: not a JSON object"),
    ],
)
def test_malformed_lines_are_named(write, reader, content, message):
    with pytest.raises(UserError, match=message):
        list(reader(write(content)))
