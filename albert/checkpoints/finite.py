"""Checks that weights are finite: with NaN or infinite weights, every output is useless."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.core.text import first_line, listed


def check_finite(where: str, reader: Any, names: Iterable[str]) -> None:
    """Raises a `UserError` if variables of a checkpoint are not finite or cannot be read.

    `where` is the checkpoint's path, for messages, and `reader` a result of `load_checkpoint`.
    """
    wrong = []
    for name in sorted(set(names)):
        try:
            value = reader.get_tensor(name)
        except tf.errors.OpError as e:
            raise UserError(f"{where} is damaged: {name} cannot be read: {first_line(e)}") from e
        # Values of other types are always finite.
        if value.dtype.kind == "f" and (count := np.count_nonzero(~np.isfinite(value))):
            wrong.append(f"{count} of {value.size} in {name}")
    if wrong:
        raise UserError(
            f"{where} has values that are not finite (NaN or infinite): "
            f"{listed(wrong)}; take another checkpoint"
        )
