"""Conversion of predicted and true labels to a view (see `albert.report.page`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert.report.page import finite, rounded


def labels_view(
    title: str,
    texts: Sequence[Mapping[str, Any]],
    outputs: Sequence[Mapping[str, np.ndarray]],
    labels: Sequence[str | None],
    scores: Mapping[str, float],
) -> dict[str, Any]:
    """Returns the view of a classification or regression.

    Args:
      title: title of the page.
      texts: `id`, `passage` (a text or None) and `texts` of each example. With a passage, the texts
        are options, one per label.
      outputs: "label_ids", "predictions" and "probabilities" [C] of each example.
      labels: labels in the order of their ids; `[None]` for regression.
      scores: scores of all examples, by name.
    """
    passages: dict[str, int] = {}
    samples = []
    for example, output in zip(texts, outputs, strict=True):
        passage = example["passage"]
        number = None if passage is None else passages.setdefault(passage, len(passages))
        result = _number(output) if list(labels) == [None] else _label(output)
        samples.append({**example, "passage": number, **result})
    kind = "options" if passages else "numbers" if list(labels) == [None] else "labels"
    return {
        "kind": kind,
        "title": title,
        "scores": {name: finite(score) for name, score in scores.items()},
        "labels": list(labels),
        "passages": list(passages),
        "samples": samples,
    }


def _number(output: Mapping[str, np.ndarray]) -> dict[str, Any]:
    truth, answer = (rounded(float(output[key])) for key in ("label_ids", "predictions"))
    return {"right": None, "score": None, "confidence": None, "truth": truth, "answer": answer}


def _label(output: Mapping[str, np.ndarray]) -> dict[str, Any]:
    truth, answer = int(output["label_ids"]), int(output["predictions"])
    return {
        "right": truth == answer,
        "score": int(truth == answer),
        "confidence": rounded(output["probabilities"][answer]),
        "truth": truth,
        "answer": answer,
        "probabilities": [rounded(p) for p in output["probabilities"]],
    }
