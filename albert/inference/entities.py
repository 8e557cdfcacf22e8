"""Named entities in texts, with a model trained on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from albert.inference.base import ModelSession, SpanFinder, checked_texts
from albert.inference.folders import OpenModel
from albert.report.spans import Span
from albert.tasks.entities.annotations import as_bioes
from albert.tasks.entities.features import Tagger
from albert.tasks.entities.head import make_head
from albert.tasks.entities.settings import WORD
from albert.tokenizers.wordpiece_text import words_in


class EntityFinder(SpanFinder):
    """A model trained on named entities."""

    def __init__(self, folder: OpenModel):
        """Loads the model; raises the errors of `ModelSession`."""
        self.folder, tags = folder, folder.value("labels")
        # Descriptions of models that tag words lack the units.
        units = folder.description.get("entity_units", WORD)
        length = folder.value("max_seq_length")
        self._tagger = Tagger(folder.tokenizer, as_bioes(tags), length, units)
        self.labels = self._tagger.labels
        self._session = ModelSession(folder, make_head(len(tags), 0.0))

    def find_all(
        self, texts: Iterable[str], pause: Callable[[], None] | None = None
    ) -> list[list[Span]]:
        pairs = [(text, words_in(text)) for text in checked_texts(texts)]
        windows = (window for pair in pairs for window in self._tagger.encode(*pair)[1])
        outputs = self._session.outputs([[sequence] for sequence, _ in windows], pause)
        return list(self._tagger.spans(pairs, outputs))
