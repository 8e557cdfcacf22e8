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
    truth: Any = output["label_ids"]
    answer: Any = output["predictions"]
    if not labels:
        # Scores that others compute from these must equal the reported ones.
        numbers = {"answer": finite(float(answer)), "truth": finite(float(truth))}
        return {**numbers, "right": None, "score": None, "confidence": None}
    shares, confidence = list(map(rounded, output["probabilities"])), None
    if np.ndim(truth):
        truth, answer = chosen(labels, truth), chosen(labels, answer)
        # F1 of a single example, which is 1 if no label is both true and predicted.
        count = len(truth) + len(answer)
        score = 2 * len({*truth} & {*answer}) / count if count else 1
    else:
        score, confidence = int(truth == answer), shares[answer]
        truth, answer = labels[truth], labels[answer]
    result = {"answer": answer, "truth": truth, "right": truth == answer, "score": score}
    return {
        **result,
        "confidence": confidence,
        "probabilities": dict(zip(labels, shares, strict=True)),
    }
