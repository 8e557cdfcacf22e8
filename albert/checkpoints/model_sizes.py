"""Sizes of a model, as configurations have them: those that no model can be built with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from albert.core.errors import UserError

# Positive integers, and what they may be at most: far beyond any model, and few enough that a graph
# is built in minutes and the elements of no variable are too many for TensorFlow to count.
_MOST_BLOCKS, _WIDEST, _MOST_ROWS = 1000, 2**20, 2**31 - 1
LARGEST = {
    "vocab_size": _MOST_ROWS,
    "embedding_size": _WIDEST,
    "hidden_size": _WIDEST,
    "num_hidden_layers": _MOST_BLOCKS,
    "num_hidden_groups": _MOST_BLOCKS,
    "num_attention_heads": _WIDEST,
    "intermediate_size": _WIDEST,
    "inner_group_num": _MOST_BLOCKS,
    "max_position_embeddings": _MOST_ROWS,
    "type_vocab_size": _MOST_ROWS,
}


def check_sizes(values: Mapping[str, Any]) -> None:
    """Checks the sizes in a configuration; what is missing has a default and passes.

    Raises:
      UserError: no model can be built with one of them, which it names.
    """
    for name, largest in LARGEST.items():
        value = values.get(name, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UserError(f"{name} must be a positive integer, not {value!r}")
        if value > largest:
            raise UserError(f"{name} must be {largest} at most, not {value}")
    groups = values.get("num_hidden_groups", 1)
    layers, inner = values.get("num_hidden_layers", groups), values.get("inner_group_num", 1)
    if groups > layers:
        raise UserError(f"num_hidden_groups {groups} is more than num_hidden_layers {layers}")
    if layers * inner > _MOST_BLOCKS:
        raise UserError(
            f"num_hidden_layers {layers} times inner_group_num {inner} must be {_MOST_BLOCKS} at "
            "most"
        )
