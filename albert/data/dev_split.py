"""A development set that is a part of the training file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from albert.core.errors import UserError


class DevSplit(NamedTuple):
    """A split of a file's texts into a training and a development part.

    Attributes:
      fraction: fraction of the different texts in the development part.
      seed: with other seeds, other texts are in it.
    """

    fraction: float
    seed: int

    @classmethod
    def of(cls, settings: Any) -> DevSplit | None:
        """Returns the split of --dev_fraction and --dev_seed; None without --dev_fraction."""
        if not settings.dev_fraction:
            return None
        return cls(settings.dev_fraction, settings.dev_seed)

    def limit(self, texts: Iterable[str], input_file: str) -> bytes:
        """Returns the highest rank of a text in the development part; no part is empty."""
        ranks = sorted(set(map(self.rank, texts)))
        if len(ranks) < 2:
            raise UserError(
                f"{input_file} has {len(ranks)} different texts; --dev_fraction needs two"
            )
        return ranks[min(max(round(self.fraction * len(ranks)), 1), len(ranks) - 1) - 1]

    def rank(self, text: str) -> bytes:
        """Returns a function of the text: a text keeps its rank if others change their order."""
        return hashlib.sha256(f"{self.seed} {text}".encode(errors="surrogatepass")).digest()


def made_from(split: DevSplit | None) -> dict[str, Any]:
    """Returns values that features depend on; None as in headers of earlier versions."""
    fraction, seed = split or (None, None)
    return {"dev_fraction": fraction, "dev_seed": seed}
