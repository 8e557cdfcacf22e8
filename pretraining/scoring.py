"""Scores of a pretrained model from what it gives for each example."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

KEY_SCORE = "masked_lm_accuracy"


def scores_of(outputs: Sequence[dict[str, np.ndarray]]) -> dict[str, float]:
    """Returns mean losses and accuracies, under the reference's names.

    Those of the masked language model are means over all masked tokens, those of the sentences'
    order over all examples. `loss` is the sum of both losses.
    """
    columns = {key: np.array([output[key] for output in outputs], float) for key in outputs[0]}
    masked = max(columns["masked_lm_weight"].sum(), 1.0)
    scores = {
        "masked_lm_accuracy": columns["masked_lm_correct"].sum() / masked,
        "masked_lm_loss": columns["masked_lm_loss"].sum() / masked,
        "sentence_order_accuracy": columns["sentence_order_correct"].mean(),
        "sentence_order_loss": columns["sentence_order_loss"].mean(),
    }
    scores["loss"] = scores["masked_lm_loss"] + scores["sentence_order_loss"]
    return {name: float(value) for name, value in scores.items()}
