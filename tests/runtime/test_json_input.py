"""JSON that people have made, with its faults."""

from __future__ import annotations

import os

import pytest

from runtime.errors import UserError
from runtime.json_input import read_json


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "file.json"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not JSON: Expecting value: line 1 column 1"),
        ("[1,\n2 3]", "is not JSON: Expecting ',' delimiter: line 2 column 3"),
        (b'["\xff"]', "is not UTF-8: byte 2"),
        ("9" * 9999, "is not JSON: Exceeds the limit"),
        ("[" * 100_000, "is not JSON that can be read: nested too deeply"),
        ('{"a":' * 100_000, "is not JSON that can be read: nested too deeply"),
    ],
)
def test_a_fault_is_one_line_that_names_the_file(write, content, message):
    path = write(content)
    with pytest.raises(UserError) as caught:
        read_json(path, "the file")
    assert str(caught.value).startswith(f"the file {path} {message}")
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read(tmp_path):
    """A pipe is not waited for."""
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (("none", "cannot be read: No such file"), ("pipe", "is not a regular fi")):
        with pytest.raises(UserError, match=f"the file .*{name} {reason}"):
            read_json(str(tmp_path / name), "the file")


def test_what_is_read(write):
    """A byte order mark does not count; objects may be of another kind."""
    for encoding in ("utf-8", "utf-8-sig"):
        assert read_json(write('{"ä": [1]}'.encode(encoding)), "file") == {"ä": [1]}
    assert read_json(write('{"a": 1, "a": 2}'), "file", list) == [("a", 1), ("a", 2)]

    def refuse(pairs):
        raise UserError("no objects")

    with pytest.raises(UserError, match="^no objects$"):
        read_json(write("[{}]"), "file", refuse)
