"""The services of a server, by the model's task: the fields of requests, and their answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from albert.inference import Model
from albert.inference.answers import answers_to, as_json
from albert.inference.base import SentenceEncoder, SpanFinder
from albert.inference.classification import OptionChooser, TextClassifier
from albert.inference.embedding import Embedder
from albert.inference.squad import QuestionAnswerer
from albert.records import TEST
from albert.serving import fields
from albert.serving.fields import Schema
from albert.tasks.glue.tasks import PROCESSORS

# Requests have values for all fields.
Requests = Sequence[Mapping[str, Any]]
Pause = Callable[[], None] | None
# Approximate number of bytes per token, and texts that are embedded between two pauses.
_BYTES, _TOGETHER = 4, 8


class Service:
    """The interface of a server for a task.

    `fields` are the schemas of a request's fields, and `example` has values of those without a
    default. `path` is that of the requests.
    """

    path = "/v1/answer"
    summary: str
    fields: Mapping[str, Schema]
    example: Mapping[str, Any]
    # The number of inputs of the model that may be truncated.
    _short = 0

    def __init__(self, model: SentenceEncoder, stride: int | None = None):
        """Takes the model, and the stride of its windows on long texts; None without windows."""
        self.model: Any = model
        self.folder = model.folder.path
        self._longest = model.folder.value("max_seq_length")
        self._stride = stride or self._longest
        # The most tokens of the texts that are not truncated.
        self._room: float = self._longest

    def answer_all(self, requests: Requests, pause: Pause = None) -> list[dict[str, Any]]:
        """Answers requests in batches; calls `pause`, which may raise, between windows if many."""
        inputs = [[one[name] for name in self.fields if name != "n_best"] for one in requests]
        rows = zip(requests, inputs, answers_to(self.model, inputs, pause), strict=True)
        return [
            {**as_json(answer, own, one.get("n_best", 1)), **self._cut(own[: self._short])}
            for one, own, answer in rows
        ]

    def windows(self, size: int) -> int:
        """Returns the approximate number of windows of a request with a size in bytes."""
        return 1 + -(-max(size // _BYTES - self._longest, 0) // self._stride)

    def _cut(self, texts: Sequence[str]) -> dict[str, bool]:
        """Returns whether the model sees only the beginning of texts, as a part of the answer."""
        encode, room = self.model.folder.tokenizer.encode, self._room
        pieces = encode(filter(None, texts)) if room < math.inf else ()
        return {"truncated": sum(len(ids) + 1 for ids in pieces) + 1 > room} if texts else {}

    def warm_up(self) -> None:
        """Answers the example, because the first use of a model is slow."""
        self.answer_all([fields.read(self.example, self.fields)])


class QuestionService(Service):
    """A service that answers questions with a model trained on SQuAD."""

    summary, _short = "Answers a question from a text.", 1
    example = {"question": "Who wrote it?", "context": "Anna wrote it in a week."}

    def __init__(self, model: QuestionAnswerer):
        super().__init__(model, model.folder.value("doc_stride"))
        self._room = model.folder.value("max_query_length") + 2
        self.fields = {
            "question": fields.TEXT,
            "context": fields.TEXT,
            "n_best": fields.number(model.folder.value("n_best_size")),
        }


class TextService(Service):
    """A service that labels texts with a model trained on GLUE or on your own task."""

    summary, _short = "Labels a text or a pair of texts.", 2

    def __init__(self, model: TextClassifier):
        super().__init__(model, model.stride)
        self._room = math.inf if model.stride else self._longest
        self.fields, self.example = {"text": fields.TEXT}, {"text": "It was raining."}
        has_pairs = _has_pairs(model.folder.description)
        if has_pairs is False:
            self.summary = "Labels a text."
        else:
            self.fields["second_text"] = fields.OPTIONAL_TEXT
        if has_pairs:
            self.example["second_text"] = "The street is wet."


def _has_pairs(about: Mapping[str, Any]) -> bool | None:
    """Returns whether a model was trained on pairs of texts; None if that is not known."""
    if processor := PROCESSORS.get(about.get("task_name", "")):
        return processor.files[TEST].text_b is not None
    return "text_b_column" in about if "text_column" in about else None


class ChoiceService(Service):
    """A service that chooses options for questions on passages with a model trained on RACE."""

    summary = "Chooses the option that answers a question on a passage or fills the gap in it (_)."

    def __init__(self, model: OptionChooser):
        super().__init__(model)
        count = len(model.labels)
        self.fields = {
            "passage": fields.TEXT,
            "question": fields.TEXT,
            "options": fields.texts(count),
        }
        options = [f"{number} days" for number in range(2, 2 + count)]
        self.example = {"passage": "A week.", "question": "It took _ .", "options": options}


class SpanService(Service):
    """A service that finds spans with labels in texts."""

    summary = "Finds the parts of a text that have a label."
    example = {"text": "Anna wrote it in Rome."}
    fields = {"text": fields.TEXT}

    def __init__(self, model: SpanFinder):
        super().__init__(model, model.folder.value("max_seq_length") // 2)


class EmbedService(Service):
    """A service that embeds texts, as `encode` does."""

    path = "/v1/embed"
    summary = "Embeds a text in one vector."
    example = {"text": "It was raining."}
    fields = {"text": fields.OPTIONAL_TEXT}

    def answer_all(self, requests: Requests, pause: Pause = None) -> list[dict[str, Any]]:
        texts, vectors = [one["text"] for one in requests], list[list[float]]()
        for first in range(0, len(texts), _TOGETHER):
            if pause:
                pause()
            vectors += self.model.encode(texts[first : first + _TOGETHER]).tolist()
        rows = zip(texts, vectors, strict=True)
        return [{"embedding": vector, **self._cut([text])} for text, vector in rows]


_SERVICES = {
    QuestionAnswerer: QuestionService,
    TextClassifier: TextService,
    OptionChooser: ChoiceService,
    SpanFinder: SpanService,
    Embedder: EmbedService,
}


def service_of(model: Model | Embedder) -> Service:
    """Returns the service for a model."""
    return next(service(model) for kind, service in _SERVICES.items() if isinstance(model, kind))
