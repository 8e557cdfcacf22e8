"""Scores of a pretrained model from what it gives for each example."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

KEY_SCORE = "masked_lm_accuracy"
# What the second segment has to do with the first, in an ALBERT's data and in a BERT's.
SENTENCE_ORDER, NEXT_SENTENCE = "sentence_order", "next_sentence"


def scores_of(outputs: Sequence[dict[str, np.ndarray]]) -> dict[str, float]:
    """Returns mean losses and accuracies, under the reference's names.

    Those of the masked language model are means over all masked tokens, those of the sentences'
    order, or of the next sentence, over all examples. `loss` is the sum of both losses.
    """
    columns = {key: np.array([output[key] for output in outputs], float) for key in outputs[0]}
    masked = max(columns["masked_lm_weight"].sum(), 1.0)
    relation = NEXT_SENTENCE if f"{NEXT_SENTENCE}_loss" in columns else SENTENCE_ORDER
    scores = {
        "masked_lm_accuracy": columns["masked_lm_correct"].sum() / masked,
        "masked_lm_loss": columns["masked_lm_loss"].sum() / masked,
        f"{relation}_accuracy": columns[f"{relation}_correct"].mean(),
        f"{relation}_loss": columns[f"{relation}_loss"].mean(),
    }
    scores["loss"] = scores["masked_lm_loss"] + scores[f"{relation}_loss"]
    return {name: float(value) for name, value in scores.items()}
