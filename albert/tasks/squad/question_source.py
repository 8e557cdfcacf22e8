"""The source of a run's questions: a file, or a part of the contexts of a file."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from albert.core.errors import UserError
from albert.tasks.squad import ERROR
from albert.tasks.squad.examples import load_squad


class DevSplit(NamedTuple):
    """A split of a file's contexts into a training and a development part.

    Attributes:
      fraction: fraction of the different contexts in the development part.
      seed: with other seeds, other contexts are in it.
    """

    fraction: float
    seed: int

    def part(self, articles: list[dict], is_dev: bool, input_file: str) -> list[dict]:
        """Returns the articles with the contexts of a part; none of them is in the other part.

        Raises:
          UserError: there are fewer than two contexts.
        """
        contexts = {p["context"] for article in articles for p in article["paragraphs"]}
        if len(contexts) < 2:
            raise UserError(
                f"{input_file} has {len(contexts)} different contexts; --dev_fraction needs two"
            )
        count = min(max(round(self.fraction * len(contexts)), 1), len(contexts) - 1)
        dev = set(sorted(contexts, key=self._rank)[:count])
        parts = []
        for article in articles:
            paragraphs = [p for p in article["paragraphs"] if (p["context"] in dev) == is_dev]
            parts += [{**article, "paragraphs": paragraphs}] if paragraphs else []
        return parts

    def _rank(self, context: str) -> bytes:
        # A function of the text, so that a context keeps its part if others change their order.
        text = f"{self.seed} {context}"
        return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


class QuestionSource(NamedTuple):
    """The file of some questions.

    Attributes:
      path: the file.
      on_bad_row: for a table, see `BadRows`.
      split: its split; None if all questions are used.
      is_dev: whether to use the development part.
    """

    path: str
    on_bad_row: str = ERROR
    split: DevSplit | None = None
    is_dev: bool = False

    def articles(self, is_training: bool) -> list[dict]:
        """Loads the articles; raises as `load_squad` and `DevSplit.part` do.

        Args:
          is_training: for a table, whether every answer needs its place in the context.
        """
        # Both parts need the same rows, so that no context is in both.
        articles = load_squad(self.path, is_training or bool(self.split), self.on_bad_row)
        return self.split.part(articles, self.is_dev, self.path) if self.split else articles

    def made_from(self) -> dict[str, Any]:
        """Returns values that features depend on, in addition to the content of the file."""
        # None as in headers of earlier versions, which lack these values.
        fraction, seed = self.split or (None, None)
        on_bad_row = None if self.on_bad_row == ERROR else self.on_bad_row
        return {"on_bad_row": on_bad_row, "dev_fraction": fraction, "dev_seed": seed}
