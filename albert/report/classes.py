"""Scores of each label, and the confusion matrix, from samples with labels or labeled spans."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from albert.core.text import aligned, printable
from albert.report.predictions import Sample
from albert.report.spans import scores_of_counts


class Classes:
    """Counts of true and predicted labels."""

    def __init__(self, samples: Iterable[Sample] = ()):
        """Counts the labels of samples; there are none if these are answers or numbers."""
        self._names, self._has_spans, self._has_sets = set[str](), False, False
        # A true and a predicted label; the first is None if spurious, the second if missed.
        self._pairs = collections.Counter[tuple[str | None, str | None]]()
        for sample in samples:
            self.add(sample)

    def add(self, sample: Sample) -> None:
        """Counts the labels of another sample, if it has any."""
        if "question" in sample or not {"spans", "probabilities"} & sample.keys():
            return
        self._has_spans = "spans" in sample
        keys = ("truths", "spans") if self._has_spans else ("truth", "answer")
        self._has_sets = isinstance(sample[keys[0]], list)
        truths, answers = (_by_position(sample[key]) for key in keys)
        self._pairs.update((truths.get(p), answers.get(p)) for p in {**truths, **answers})
        self._names.update(truths.values(), answers.values(), sample.get("probabilities", ()))

    @property
    def labels(self) -> list[str]:
        """Returns all labels, sorted."""
        return sorted(self._names)

    def scores(self) -> dict[str, dict[str, float]]:
        """Returns the scores of each label, and its support, which is how often it is true.

        A score is 0 if its denominator is. For spans, there are also the numbers of right ones, of
        those with a wrong label, of missed ones, and of spurious ones where no span is true.
        """
        true, predicted = collections.Counter[str | None](), collections.Counter[str | None]()
        for (truth, answer), count in self._pairs.items():
            true[truth] += count
            predicted[answer] += count
        scores = dict[str, dict[str, float]]()
        for label in self.labels:
            hits = self._pairs[label, label]
            scores[label] = scores_of_counts(hits, predicted[label], true[label])
            scores[label]["support"] = true[label]
            if self._has_spans:
                missed, spurious = self._pairs[label, None], self._pairs[None, label]
                scores[label] |= {"right": hits, "wrong_label": true[label] - hits - missed}
                scores[label] |= {"missed": missed, "spurious": spurious}
        return scores

    def confusion(self) -> dict[str, dict[str, int]]:
        """Returns how often each true label was predicted as each, for samples with one label."""
        labels = [] if self._has_sets else self.labels
        return {true: {name: self._pairs[true, name] for name in labels} for true in labels}

    def as_json(self) -> dict[str, Any]:
        """Returns the scores as `classes`, and the matrix as `confusion`, as far as they exist."""
        values = {"classes": self.scores(), "confusion": self.confusion()}
        return {name: value for name, value in values.items() if value}

    def lines(self, width: int) -> Iterator[str]:
        """Yields the scores as lines, and the confusion matrix if it fits into the width."""
        scores, confusion = self.scores(), self.confusion()
        if scores:
            yield from _table("label", next(iter(scores.values())), scores)
            matrix = _table("true, by predicted", confusion, confusion)
            if confusion and max(map(len, matrix)) <= width:
                yield from matrix


def _by_position(labels: Any) -> dict[Any, str]:
    if not isinstance(labels, list):
        return {None: labels}
    if labels and isinstance(labels[0], dict):
        return {(span["start"], span["text"]): span["label"] for span in labels}
    return dict(zip(labels, labels, strict=True))


def _table(name: str, heads: Iterable[str], rows: Mapping[str, Mapping[str, float]]) -> list[str]:
    cells = [[name, *map(printable, heads)]]
    for label, row in rows.items():
        values = (str(v) if isinstance(v, int) else f"{v:.3f}" for v in row.values())
        cells.append([printable(label), *values])
    return aligned(cells, right=True)
