"""Weights of labels in the loss of a classification."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable, Sequence

from albert.core.errors import FlagError

BALANCED = "balanced"


def parse_class_weights(text: str, labels: Sequence[str]) -> list[float]:
    """Returns the weights in a list such as "yes=2,no=0.5", in the order of the labels.

    Labels that are not in the list have the weight 1. Raises a `FlagError` if the list is wrong.
    """
    weights = dict[str, float]()
    for item in text.split(","):
        label, _, number = item.strip().rpartition("=")
        try:
            weight = float(number)
        except ValueError:
            weight = math.nan
        if label not in labels or label in weights or not 0 < weight < math.inf:
            raise FlagError(
                f"--class_weights: {item!r} is not LABEL=WEIGHT with a positive weight and another "
                f"one of the labels {', '.join(labels)}; or pass {BALANCED}"
            )
        weights[label] = weight
    return [weights.get(label, 1.0) for label in labels]


def balanced_weights(examples: Iterable[str], labels: Sequence[str]) -> list[float]:
    """Returns n / (classes * count) for the labels of n examples, as scikit-learn's "balanced".

    Only labels with examples count as classes.
    """
    counts = collections.Counter(examples)
    return [counts.total() / (len(counts) * (counts[label] or 1)) for label in labels]
