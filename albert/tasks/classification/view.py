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
      outputs: "label_ids", "predictions" and "probabilities" [C] of each example; for several
        labels, the first two are 0 or 1 for each label.
      labels: labels in the order of their ids; `[None]` for regression.
      scores: scores of all examples, by name.
    """
    passages: dict[str, int] = {}
    samples = []
    for example, output in zip(texts, outputs, strict=True):
        passage = example["passage"]
        number = None if passage is None else passages.setdefault(passage, len(passages))
        samples.append({**example, "passage": number, **_result(output, labels)})
    kind = "options" if passages else "numbers" if list(labels) == [None] else "labels"
    if outputs and np.ndim(outputs[0]["label_ids"]):
        kind = "sets"
    return {
        "kind": kind,
        "title": title,
        "scores": {name: finite(score) for name, score in scores.items()},
        "labels": list(labels),
        "passages": list(passages),
        "samples": samples,
    }


def _result(output: Mapping[str, np.ndarray], labels: Sequence[str | None]) -> dict[str, Any]:
    if list(labels) == [None]:
        return _number(output)
    return _set(output) if np.ndim(output["label_ids"]) else _label(output)


def _number(output: Mapping[str, np.ndarray]) -> dict[str, Any]:
    truth, answer = (finite(float(output[key])) for key in ("label_ids", "predictions"))
    return {"right": None, "score": None, "confidence": None, "truth": truth, "answer": answer}


def _set(output: Mapping[str, np.ndarray]) -> dict[str, Any]:
    truth, answer = (np.flatnonzero(output[key]).tolist() for key in ("label_ids", "predictions"))
    return {
        "right": truth == answer,
        # F1 of a single example, which is 1 if no label is both true and predicted.
        "score": 2 * len({*truth} & {*answer}) / (len(truth) + len(answer))
        if truth or answer
        else 1,
        "confidence": None,
        "truth": truth,
        "answer": answer,
        "probabilities": [rounded(p) for p in output["probabilities"]],
    }


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
