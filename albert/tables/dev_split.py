"""A development set that is a part of the training file."""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

from albert.core.errors import UserError

# Of fewer texts, a part says nothing.
FEWEST_TEXTS = 10


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
        """Returns the split of --dev_fraction; None without it."""
        if not settings.dev_fraction:
            return None
        return cls(settings.dev_fraction, settings.dev_seed)

    def chosen(self, texts: Iterable[tuple[str, Hashable]], input_file: str) -> frozenset[bytes]:
        """Returns the ranks of the development part, which has each label's fraction.

        `texts` come with their labels; the first label of a text counts. A label keeps a text for
        training. Raises a `UserError` if there is no text for each part.
        """
        labels = dict[bytes, Hashable]()
        for text, label in texts:
            labels.setdefault(self.rank(text), label)
        if len(labels) < 2:
            raise UserError(
                f"{input_file} has {len(labels)} different texts; --dev_fraction needs two"
            )
        ranks = collections.defaultdict(list)
        for rank in sorted(labels):
            ranks[labels[rank]].append(rank)
        numbers = ((ranks[n], round(self.fraction * len(ranks[n]))) for n in ranks)
        dev = [rank for own, number in numbers for rank in own[: min(number, len(own) - 1)]]
        return frozenset(dev or max(ranks.values(), key=len)[:1])

    def rank(self, text: str) -> bytes:
        """Returns a function of the text: a text keeps its rank if others change their order."""
        return hashlib.sha256(f"{self.seed} {text}".encode(errors="surrogatepass")).digest()


def made_from(split: DevSplit | None) -> dict[str, Any]:
    """Returns values that features depend on; None as in headers of earlier versions."""
    fraction, seed = split or (None, None)
    return {"dev_fraction": fraction, "dev_seed": seed}
