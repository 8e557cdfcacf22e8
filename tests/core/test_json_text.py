"""Reads JSON that may have faults, and prints JSON that every parser reads."""

import io
import json
import math
import os
import sys
from unittest import mock

import pytest

from albert.core.errors import UserError
from albert.core.files import print_json, read_json


def write(folder, content):
    path = folder / "file.json"
    if callable(content):
        content(path)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not JSON: Expecting value: line 1 column 1"),
        ("[1,\n2 3]", "is not JSON: Expecting ',' delimiter: line 2 column 3"),
        (b'["\xff"]', "is not UTF-8: byte 2"),
        ("9" * 9999, "is not JSON: Exceeds the limit"),
        *((mark * 100_000, "cannot be parsed: its JSON is nested too") for mark in ("[", '{"a":')),
        (os.path.exists, "cannot be read: No such file"),
        (os.mkfifo, "is not a regular file"),
    ],
)
def test_a_fault_is_one_line_that_names_the_file(tmp_path, content, message):
    path = write(tmp_path, content)
    with pytest.raises(UserError) as caught:
        read_json(path, "the file")
    assert str(caught.value).startswith(f"the file {path} {message}")
    assert "\n" not in str(caught.value)


def test_a_byte_order_mark_is_skipped(tmp_path):
    for encoding in ("utf-8", "utf-8-sig"):
        assert read_json(write(tmp_path, '{"ä": [1]}'.encode(encoding)), "file") == {"ä": [1]}
    path = write(tmp_path, '{"a": 1, "a": 2}')
    assert read_json(path, "file", list) == [("a", 1), ("a", 2)]

    with pytest.raises(UserError, match="^no objects$"):
        read_json(path, "file", mock.Mock(side_effect=UserError("no objects")))


VALUE = {"é\udceb": [math.nan, -math.inf, 0.5, 3, True, None, ("half \ud83d", "\ud83d\ude00")]}


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_printed_json_replaces_values_that_json_lacks(monkeypatch, encoding):
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, encoding))
    print_json(VALUE)
    text = output.getvalue().decode(encoding)
    assert ("é" in text) == (encoding == "utf-8")
    replaced = {"é\ufffd": [None, None, 0.5, 3, True, None, ["half \ufffd", "\U0001f600"]]}
    assert json.loads(text) == replaced
