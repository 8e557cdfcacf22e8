"""Windows on sequences of tokens that are longer than the model's input."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from albert.core.errors import UserError


def window_starts(length: int, room: int, stride: int) -> tuple[int, ...]:
    """Returns the first token of each window over `length` tokens; the last reaches the end."""
    if room < 1 or stride < 1:
        raise UserError(
            f"windows of {room} tokens every {stride} tokens cover no paragraph; pass a larger "
            "max_seq_length or a smaller max_query_length"
        )
    starts: list[int] = []
    while length and (not starts or starts[-1] + room < length):
        starts.append(starts[-1] + min(room, stride) if starts else 0)
    return tuple(starts)


@functools.lru_cache(maxsize=8)
def max_context_windows(starts: tuple[int, ...], room: int, length: int) -> np.ndarray:
    """Returns, for each of `length` tokens, the number of the window with the most context for it.

    The context is the smaller of the numbers of tokens to the left and to the right in the window,
    plus 0.01 for each token of the window. The first of equal windows wins, so that the numbers
    ascend.
    """
    best = np.zeros(length, np.int32)
    best_score = np.full(length, -1.0)
    for number, start in enumerate(starts):
        end = min(start + room, length)
        position = np.arange(end - start)
        score = np.minimum(position, end - start - 1 - position) + 0.01 * (end - start)
        better = score > best_score[start:end]
        best[start:end][better] = number
        best_score[start:end][better] = score[better]
    return best


def positions_in_windows(
    length: int, room: int, positions: np.ndarray
) -> Iterator[tuple[int, np.ndarray]]:
    """Yields the first token of each window, and the tokens whose outputs to take from there.

    Half of a window's tokens are in the next one too. The outputs of a token are taken from the
    window that gives it the most context.

    Args:
      room: number of tokens of a window.
      positions: the tokens whose outputs are needed, in ascending order.
    """
    starts = window_starts(length, room, max(room // 2, 1))
    windows = max_context_windows(starts, room, length)[positions]
    bounds = windows.searchsorted(range(len(starts) + 1))
    for number, start in enumerate(starts):
        yield start, positions[bounds[number] : bounds[number + 1]]
