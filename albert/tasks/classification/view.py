"""Conversion of predicted and true labels to samples (see `albert.report.predictions`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from albert.report.predictions import Sample, View, finite, rounded
from albert.tasks.classification.metrics import chosen


def labels_view(
    title: str,
    texts: Sequence[Mapping[str, Any]],
    outputs: Sequence[Mapping[str, np.ndarray]],
    labels: Sequence[str | None],
    scores: Mapping[str, float],
) -> View:
    """Returns the view of a classification or regression.

    Args:
      texts: `id`, `passage` (a text or None) and `texts` of each example. With a passage, the texts
        are options, one per label.
      outputs: "label_ids", "predictions" and "probabilities" [C] of each example; for several
        labels, the first two are 0 or 1 for each label.
      labels: labels in the order of their ids; `[None]` for regression.
    """
    names = [label for label in labels if label is not None]
    samples = (
        {"id": e["id"], "texts": e["texts"], **_result(output, names), "passage": e["passage"]}
        for e, output in zip(texts, outputs, strict=True)
    )
    return View(title, scores, samples, names)


def _result(output: Mapping[str, np.ndarray], labels: Sequence[str]) -> Sample:
    if not labels:
        return _number(output)
    shares = map(rounded, output["probabilities"])
    result = _set if np.ndim(output["label_ids"]) else _label
    return {**result(output, labels), "probabilities": dict(zip(labels, shares, strict=True))}


def _number(output: Mapping[str, np.ndarray]) -> Sample:
    # Scores that others compute from these must equal the reported ones.
    truth, answer = (finite(float(output[key])) for key in ("label_ids", "predictions"))
    return {"answer": answer, "truth": truth, "right": None, "score": None, "confidence": None}


def _set(output: Mapping[str, np.ndarray], labels: Sequence[str]) -> Sample:
    truth, answer = (chosen(labels, output[key]) for key in ("label_ids", "predictions"))
    # F1 of a single example, which is 1 if no label is both true and predicted.
    count = len(truth) + len(answer)
    score = 2 * len({*truth} & {*answer}) / count if count else 1
    result = {"answer": answer, "truth": truth, "right": truth == answer}
    return {**result, "score": score, "confidence": None}


def _label(output: Mapping[str, np.ndarray], labels: Sequence[str]) -> Sample:
    truth, answer = int(output["label_ids"]), int(output["predictions"])
    result = {"answer": labels[answer], "truth": labels[truth], "right": truth == answer}
    confidence = rounded(output["probabilities"][answer])
    return {**result, "score": int(truth == answer), "confidence": confidence}
