"""The base class of models that find spans with labels in texts."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Sequence

from albert.inference.folders import ModelFolder
from albert.inference.sentences import SentenceEncoder
from albert.report.spans import Span


class SpanFinder(SentenceEncoder, abc.ABC):
    """A model that finds spans with its labels in texts of any length."""

    folder: ModelFolder
    labels: Sequence[str]

    def find(self, text: str) -> list[Span]:
        """Returns the spans of a text, in order."""
        (found,) = self.find_all([text])
        return found

    @abc.abstractmethod
    def find_all(
        self, texts: Iterable[str], pause: Callable[[], None] | None = None
    ) -> list[list[Span]]:
        """Returns the spans of texts, in batches of all their windows.

        `pause` is called before each window; it may raise. Without it, windows run in batches.
        """
