"""JSON that every parser takes."""

from __future__ import annotations

import io
import json
import math
import sys

import pytest

from runtime.json_output import print_json

VALUE = {"é\udceb": [math.nan, -math.inf, 0.5, 3, True, None, ("half \ud83d", "\ud83d\ude00")]}


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_what_json_has_not_is_replaced(monkeypatch, encoding):
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, encoding))
    print_json(VALUE)
    text = output.getvalue().decode(encoding)
    assert ("é" in text) == (encoding == "utf-8")
    replaced = {"é\ufffd": [None, None, 0.5, 3, True, None, ["half \ufffd", "\U0001f600"]]}
    assert json.loads(text) == replaced
