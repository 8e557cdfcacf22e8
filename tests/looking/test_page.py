"""The page as a file: what is written is read again, and what is none is refused."""

from __future__ import annotations

import json

import pytest

from looking.page import read_page, rounded, write_page
from runtime.errors import UserError

VIEW = {
    "kind": "answers",
    "title": "a </script><!-- <script> & \u2028 {{data}}",
    "samples": [{"id": "half a character \ud800", "text": "ä 😀"}],
}


def test_a_view_is_read_as_it_was_written(tmp_path):
    """Nothing in a text is markup, and there is no address of anything to load."""
    path = tmp_path / "predictions.html"
    write_page(str(path), VIEW)
    assert read_page(str(path)) == VIEW
    page = path.read_text(encoding="utf-8")
    data = page.partition('id="data">')[2].partition("</script>")[0]
    assert "<" not in data and json.loads(data) == VIEW
    for what in ("http:", "https:", "url(", "@import", "src=", "href="):
        assert what not in page.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize(
    "content",
    [b"<html></html>", b"\xff", b'<script type="application/json" id="data">[]</script>'],
)
def test_what_is_no_page(tmp_path, content):
    path = tmp_path / "predictions.html"
    path.write_bytes(content)
    with pytest.raises(UserError, match="is no page of predictions"):
        read_page(str(path))
    with pytest.raises(UserError, match="none.html cannot be read: No such file"):
        read_page(str(tmp_path / "none.html"))


def test_numbers_that_json_does_not_have():
    known = [rounded(x) for x in (None, float("nan"), float("-inf"), 0.123456)]
    assert known == [None, None, None, 0.1235]
