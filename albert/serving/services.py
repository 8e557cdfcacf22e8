"""The services of a server, by the model's task: the fields of requests, and their answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException

from albert.core.errors import UserError
from albert.core.text import is_utf8
from albert.inference import Model
from albert.inference.answers import CHOOSES, answers_to, as_json
from albert.inference.base import SentenceEncoder, SpanFinder
from albert.inference.classification import OptionChooser, TextClassifier
from albert.inference.embedding import Embedder
from albert.inference.squad import QuestionAnswerer
from albert.records import TEST
from albert.tasks.glue.tasks import PROCESSORS

# Requests have values for all fields.
Requests = Sequence[Mapping[str, Any]]
Pause = Callable[[], None] | None
# Approximate number of bytes per token, and texts that are embedded between two pauses.
_BYTES, _TOGETHER = 4, 8
# The type of a field and its limits, as JSON schemas say them; the page of the server reads them.
Schema = Mapping[str, Any]
TEXT: Schema = {"type": "string"}
# A text that may also be empty.
OPTIONAL_TEXT: Schema = {"type": "string", "default": ""}


class Service:
    """The interface of a server for a task.

    `fields` are the schemas of a request's fields, and `example` has values of those without a
    default. `path` is that of the requests.
    """

    path = "/v1/answer"

    def __init__(
        self,
        model: SentenceEncoder,
        summary: str,
        fields: Mapping[str, Schema],
        example: Mapping[str, Any],
        stride: int | None = None,
        cut: int = 0,
        room: float | None = None,
    ):
        """Takes a model, and what the page and the requests of its task have.

        Args:
          stride: that of the model's windows on long texts; None without windows.
          cut: number of fields, the first ones, whose texts may be truncated.
          room: the most tokens of these texts; None for the model's `max_seq_length`.
        """
        self.model: Any = model
        self.folder = model.folder.path
        self.summary, self.fields, self.example = summary, fields, example
        self._longest = model.folder.value("max_seq_length")
        self._stride, self._cut = stride or self._longest, cut
        self._room = self._longest if room is None else room

    def answer_all(self, requests: Requests, pause: Pause = None) -> list[dict[str, Any]]:
        """Answers requests in batches; calls `pause`, which may raise, between windows if many."""
        inputs = [[one[name] for name in self.fields if name != "n_best"] for one in requests]
        rows = zip(requests, inputs, answers_to(self.model, inputs, pause), strict=True)
        return [
            {**as_json(answer, own, one.get("n_best", 1)), **self._truncated(own)}
            for one, own, answer in rows
        ]

    def windows(self, size: int) -> int:
        """Returns the approximate number of windows of a request with a size in bytes."""
        return 1 + -(-max(size // _BYTES - self._longest, 0) // self._stride)

    def _truncated(self, inputs: Sequence[Any]) -> dict[str, bool]:
        """Returns whether the model sees only the beginning of texts, as a part of the answer."""
        if not self._cut:
            return {}
        encode, texts = self.model.folder.tokenizer.encode, filter(None, inputs[: self._cut])
        pieces = encode(texts) if self._room < math.inf else ()
        return {"truncated": sum(len(ids) + 1 for ids in pieces) + 1 > self._room}

    def warm_up(self) -> None:
        """Answers the example, because the first use of a model is slow."""
        self.answer_all([read(self.example, self.fields)])


class EmbedService(Service):
    """A service that embeds texts, as `encode` does."""

    path = "/v1/embed"

    def __init__(self, model: SentenceEncoder):
        fields, example = {"text": OPTIONAL_TEXT}, {"text": "It was raining."}
        super().__init__(model, "Embeds a text in one vector.", fields, example, cut=1)

    def answer_all(self, requests: Requests, pause: Pause = None) -> list[dict[str, Any]]:
        texts, vectors = [one["text"] for one in requests], list[list[float]]()
        for first in range(0, len(texts), _TOGETHER):
            if pause:
                pause()
            vectors += self.model.encode(texts[first : first + _TOGETHER]).tolist()
        rows = zip(texts, vectors, strict=True)
        return [{"embedding": vector, **self._truncated([text])} for text, vector in rows]


def service_of(model: Model | Embedder) -> Service:
    """Returns the service for a model; raises a `UserError` for one that chooses options."""
    value = model.folder.value
    if isinstance(model, QuestionAnswerer):
        n_best = {"type": "integer", "minimum": 1, "maximum": value("n_best_size"), "default": 1}
        return Service(
            model,
            "Answers a question from a text.",
            {"question": TEXT, "context": TEXT, "n_best": n_best},
            {"question": "Who wrote it?", "context": "Anna wrote it in a week."},
            stride=value("doc_stride"),
            cut=1,
            room=value("max_query_length") + 2,
        )
    if isinstance(model, SpanFinder):
        what, example = "Finds the parts of a text that have a label.", "Anna wrote it in Rome."
        stride = value("max_seq_length") // 2
        return Service(model, what, {"text": TEXT}, {"text": example}, stride)
    if isinstance(model, OptionChooser):
        raise UserError(f"{model.folder.path} {CHOOSES}")
    if isinstance(model, TextClassifier):
        fields, shown = {"text": TEXT}, {"text": "It was raining."}
        has_pairs = _has_pairs(model.folder.description)
        if has_pairs is not False:
            fields["second_text"] = OPTIONAL_TEXT
        if has_pairs:
            shown["second_text"] = "The street is wet."
        what = f"Labels a text{'' if has_pairs is False else ' or a pair of texts'}."
        room = math.inf if model.stride else None
        return Service(model, what, fields, shown, model.stride, cut=2, room=room)
    return EmbedService(model)


def _has_pairs(about: Mapping[str, Any]) -> bool | None:
    """Returns whether a model was trained on pairs of texts; None if that is not known."""
    if processor := PROCESSORS.get(about.get("task_name", "")):
        return processor.files[TEST].text_b is not None
    return "text_b_column" in about if "text_column" in about else None


def read(body: Any, fields: Mapping[str, Schema]) -> dict[str, Any]:
    """Returns the values of all fields; raises an `HTTPException` if the body does not match."""
    if not isinstance(body, dict):
        raise HTTPException(422, f"the body must be a JSON object with {', '.join(fields)}")
    for name in body:
        if name not in fields:
            raise HTTPException(422, f"{name!r} is not a field; the fields are {', '.join(fields)}")
    values = {}
    for name, schema in fields.items():
        if name not in body and "default" not in schema:
            raise HTTPException(422, f"{name!r} is missing")
        values[name] = body.get(name, schema.get("default"))
        _check(name, values[name], schema)
    return values


def _check(name: str, value: Any, schema: Schema) -> None:
    fault = ""
    if schema["type"] == "integer":
        low, high = schema["minimum"], schema["maximum"]
        if type(value) is not int or not low <= value <= high:
            fault = f"must be an integer from {low} to {high}"
    elif not isinstance(value, str):
        fault = "must be a text"
    elif "default" not in schema and not value.strip():
        fault = "is empty"
    elif not is_utf8(value):
        fault = "has half of a surrogate pair, which is not valid text"
    if fault:
        raise HTTPException(422, f"{name!r} {fault}")
