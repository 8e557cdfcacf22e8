"""The view of predicted labels and numbers."""

from __future__ import annotations

import numpy as np

from albert.report.page import read_page, write_page
from albert.tasks.classification.view import labels_view


def test_numbers_keep_their_precision(tmp_path):
    """So that scores of the page's numbers are those of the run, even for small numbers."""
    rows = np.float32([[1 / 3, 1e-5], [2 / 3, 1.23456e-5], [np.pi, np.nan]])
    texts = [{"id": f"e{n}", "passage": None, "texts": []} for n in range(len(rows))]
    outputs = [dict(zip(("label_ids", "predictions"), row, strict=True)) for row in rows]
    write_page(str(tmp_path / "page.html"), labels_view("T", texts, outputs, [None], {}))
    samples = read_page(str(tmp_path / "page.html"))["samples"]
    assert samples[2]["answer"] is None
    found = np.float32([[s["truth"], s["answer"]] for s in samples[:2]])
    np.testing.assert_array_equal(found, rows[:2])
    np.testing.assert_array_equal(np.float32(samples[2]["truth"]), rows[2, 0])
