"""Windows on texts that are longer than the model's input, and one output for all of a text's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from albert.prediction.session import Output
from albert.records.sequences import TokenSequence, cut_sequence, make_sequence, window_starts

# How the probabilities of windows are pooled, by the value of --long_texts.
POOLINGS: dict[str, Callable[..., np.ndarray]] = {"mean": np.mean, "max": np.max}
# The values of `is_real_example` for a text's first window and for the others; 0 fills a batch.
FIRST, LATER = 1, 2


def windows_of(
    ids_a: Sequence[int],
    ids_b: Sequence[int],
    special_ids: Sequence[int],
    max_seq_length: int,
    stride: int | None,
) -> list[TokenSequence]:
    """Returns a text or a pair as sequences, whose windows on the longer text begin every `stride`.

    All have the shorter text, truncated to half of the room. Without a stride, there is only the
    first one. See `cut_sequence` for this and the other arguments.
    """
    room = max_seq_length - (3 if ids_b else 2)
    if stride is None or len(ids_a) + len(ids_b) <= room:
        return [cut_sequence(ids_a, ids_b, special_ids, max_seq_length)]
    is_first = len(ids_a) >= len(ids_b)
    longer, shorter = (ids_a, ids_b) if is_first else (ids_b, ids_a)
    shorter = shorter[: room // 2]
    size = room - len(shorter)
    windows = (longer[n : n + size] for n in window_starts(len(longer), size, stride))
    pairs = ((window, shorter) if is_first else (shorter, window) for window in windows)
    return [make_sequence(*pair, *special_ids) for pair in pairs]


def pooled(
    texts: Iterable[Sequence[Output]], pooling: str, threshold: float | None = None
) -> list[Output]:
    """Returns the output for each text from those of its windows; a single one stays as it is.

    `threshold` is the probability from which a label is predicted; None if a text has one label or
    number.
    """
    return [one[0] if len(one) == 1 else _pooled(one, pooling, threshold) for one in texts]


def _pooled(windows: Sequence[Output], pooling: str, threshold: float | None) -> Output:
    shares = POOLINGS[pooling]([window["probabilities"] for window in windows], axis=0)
    values: dict[str, Any] = {"probabilities": shares}
    if not windows[0]["logits"].ndim:
        # A number is its own logit.
        values |= dict.fromkeys(("logits", "predictions"), shares[0])
    elif threshold is None:
        values["probabilities"] = shares = shares / shares.sum()
        values |= {"logits": _log(shares), "predictions": np.argmax(shares).astype(np.int32)}
    else:
        predictions = (shares >= threshold).astype(np.int32)
        values |= {"logits": _log(shares) - _log(1 - shares), "predictions": predictions}
    return {**windows[0], **values}


def _log(shares: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(shares, np.finfo(np.float32).tiny))
