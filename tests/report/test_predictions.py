"""The predictions of a run as a file, and the page made from them."""

import json
import re

import numpy as np
import pytest

from albert.core.errors import UserError
from albert.report.predictions import View, read_samples, rounded, write_page, write_samples
from albert.tasks.classification.view import labels_view

TITLE = "a </script><!-- <script> & \u2028 {{data}}"
SAMPLES = [
    {"id": f"{n}</script>", "answer": "half \ud800\n", "passage": f',"passage":ä 😀 \u2028{n // 2}'}
    for n in range(5)
]


def test_written_samples_are_read_back_and_are_on_the_page(tmp_path):
    """Nothing in a text is markup or ends a line, and the page loads nothing from any address."""
    view = View(TITLE, {"f1": 0.5, "loss": float("nan")}, iter(SAMPLES), ["a", "b"])
    write_samples(str(tmp_path), view)
    assert list(read_samples(str(tmp_path))) == SAMPLES
    lines = (tmp_path / "predictions.jsonl").read_bytes().split(b"\n")
    assert [json.loads(line) for line in lines[:-1]] == SAMPLES and lines[-1] == b""
    page = (tmp_path / "predictions.html").read_text(encoding="utf-8")
    head, data = re.findall('<script type="application/json.*?>(.*?)</script>', page, re.DOTALL)
    assert "<" not in head + data
    scores = {"f1": 0.5, "loss": None}
    assert json.loads(head) == {"title": TITLE, "scores": scores, "labels": ["a", "b"]}
    shown = [json.loads(line) for line in data.split("\n")[:-1]]
    # A passage of several samples is there once.
    assert [n for n, sample in enumerate(shown) if "passage" not in sample] == [1, 3]
    assert [SAMPLES[n] | sample for n, sample in enumerate(shown)] == SAMPLES
    for what in ("http:", "https:", "url(", "@import", "src=", "href="):
        assert what not in page.replace("http://www.w3.org/2000/svg", "")
    write_page(str(tmp_path / "same.html"), view._replace(samples=SAMPLES))
    assert (tmp_path / "same.html").read_text(encoding="utf-8") == page


def test_numbers_keep_their_precision():
    """So that scores of the file's numbers are those of the run, even for small numbers."""
    rows = np.float32([[1 / 3, 1e-5], [2 / 3, 1.23456e-5], [np.pi, np.nan]])
    texts = [{"id": f"e{n}", "passage": None, "texts": []} for n in range(len(rows))]
    outputs = [dict(zip(("label_ids", "predictions"), row, strict=True)) for row in rows]
    *known, last = labels_view("T", texts, outputs, [None], {}).samples
    assert last["answer"] is None and np.float32(last["truth"]) == rows[2, 0]
    pairs = np.float32([[s["truth"], s["answer"]] for s in known])
    np.testing.assert_array_equal(pairs, rows[:2])
    # For display.
    known = [rounded(x) for x in (None, float("nan"), float("-inf"), 0.123456)]
    assert known == [None, None, None, 0.1235]


def test_a_damaged_file_is_an_error(tmp_path):
    with pytest.raises(UserError, match="predictions.jsonl cannot be read: No such file"):
        list(read_samples(str(tmp_path)))
    for line, problem in ((b"[]", "a prediction"), (b"\xff", "UTF-8"), (b"{", "JSON")):
        (tmp_path / "predictions.jsonl").write_bytes(b'{"id": "a", "answer": null}\n' + line)
        with pytest.raises(UserError, match=f"predictions.jsonl, line 2 is not {problem}"):
            list(read_samples(str(tmp_path)))
