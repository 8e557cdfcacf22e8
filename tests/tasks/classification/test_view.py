"""The view of labels and numbers."""

from __future__ import annotations

import numpy as np

from albert.tasks.classification.view import labels_view


def test_numbers_keep_their_precision():
    texts = [{"id": "a", "passage": None, "texts": ["A text."]}]
    outputs = [{"label_ids": np.float64(1.25e-5), "predictions": np.float64(2.718281828)}]
    (sample,) = labels_view("", texts, outputs, [None], {})["samples"]
    assert (sample["truth"], sample["answer"]) == (1.25e-5, 2.718281828)
