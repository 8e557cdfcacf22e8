"""The services of a server, by the model's task: fields, results, and their description."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from albert.core.version import VERSION
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
_PROBABILITY = {"type": "number", "minimum": 0, "maximum": 1}
_PROBABILITIES = {"type": "object", "additionalProperties": _PROBABILITY}
_TEXT, _COUNT, _BOOLEAN = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
# A span as `as_json` writes it, without a label.
_SPAN: dict[str, Schema] = {"text": _TEXT, "probability": _PROBABILITY, "sentence": _TEXT}
_SPAN |= dict.fromkeys(("start", "end", "line", "character"), _COUNT)
# Whether the model saw only the beginning of a text, or of a question.
_CUT = {"truncated": _BOOLEAN}
# Approximate number of bytes per token, and texts that are embedded between two pauses.
_BYTES, _TOGETHER = 4, 8
# Reasons for errors, by status.
FAULTS = {
    400: "The body is not JSON in UTF-8.",
    401: "The token is missing or wrong.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body is not of the type application/json, or is compressed.",
    421: "The server does not have this host name; allow it with --allowed_hosts.",
    422: "The JSON lacks a field, or a field is not as described.",
    500: "The model failed; see the server's log.",
    503: "Too many requests are waiting, too many connections are in use, or the server is "
    "shutting down. Retry-After says when to try again.",
    504: "The answer was not ready in time.",
}


def _object(**properties: Schema) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


class Service:
    """The interface of a server for a task.

    `fields` are the schemas of a request's fields, and `result` is the JSON schema of an answer.
    `example` has values of the fields without a default. `path` is that of the requests.
    """

    path = "/v1/answer"
    summary: str
    fields: Mapping[str, Schema]
    example: Mapping[str, Any]
    result: Schema
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
        """Returns whether texts with special tokens are too long, as a part of the answer."""
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
            "question": fields.text("The question."),
            "context": fields.text("The text that has the answer."),
            "n_best": fields.number(
                "The number of answers to list.", model.folder.value("n_best_size")
            ),
        }
        self.result = _object(
            question=_TEXT,
            answer=_TEXT,
            abstains=_BOOLEAN,
            no_answer_probability={**_PROBABILITY, "type": ["number", "null"]},
            answers={"type": "array", "items": _object(**_SPAN)},
            **_CUT,
        )


class TextService(Service):
    """A service that labels texts with a model trained on GLUE or on your own task."""

    summary, _short = "Labels a text or a pair of texts.", 2

    def __init__(self, model: TextClassifier):
        super().__init__(model, model.stride)
        self._room = math.inf if model.stride else self._longest
        self.fields, self.example = {"text": fields.text("The text.")}, {"text": "It was raining."}
        has_pairs = _has_pairs(model.folder.description)
        if has_pairs is False:
            self.summary = "Labels a text."
        else:
            about = "The second text, for tasks with pairs."
            self.fields["second_text"] = fields.text(about, may_be_empty=True)
        if has_pairs:
            self.example["second_text"] = "The street is wet."
        self.result = _labelled(model.labels, **_CUT)
        if model.is_multi_label:
            labels = {"type": "array", "items": {"enum": list(model.labels)}}
            self.result = _object(labels=labels, probabilities=_PROBABILITIES, **_CUT)


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
            "passage": fields.text("The passage."),
            "question": fields.text("The question, or a sentence with a gap."),
            "options": fields.texts("The possible answers.", count),
        }
        options = [f"{number} days" for number in range(2, 2 + count)]
        self.example = {"passage": "A week.", "question": "It took _ .", "options": options}
        self.result = _labelled(model.labels)


class SpanService(Service):
    """A service that finds spans with labels in texts."""

    summary = "Finds the parts of a text that have a label."
    example = {"text": "Anna wrote it in Rome."}
    fields = {"text": fields.text("The text.")}

    def __init__(self, model: SpanFinder):
        super().__init__(model, model.folder.value("max_seq_length") // 2)
        item = _object(label={"enum": list(model.labels)}, **_SPAN)
        self.result = _object(spans={"type": "array", "items": item})


class EmbedService(Service):
    """A service that embeds texts, as `encode` does."""

    path = "/v1/embed"
    summary = "Embeds a text in one vector."
    example = {"text": "It was raining."}
    fields = {"text": fields.text("The text.", may_be_empty=True)}
    result = _object(embedding={"type": "array", "items": {"type": "number"}}, **_CUT)

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


def _labelled(labels: Sequence[str | None], **more: Schema) -> Schema:
    is_number = list(labels) == [None]
    return _object(
        label={"type": "null"} if is_number else {"enum": list(labels)},
        probabilities=_PROBABILITIES,
        number={"type": "number" if is_number else "null"},
        **more,
    )


def describe(services: Iterable[Service], task: str, needs_token: bool) -> dict[str, Any]:
    """Returns the OpenAPI 3.1 description of the services of a model for a task."""
    error = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    faults = {str(code): _response(about, error) for code, about in FAULTS.items()}
    health = _response("The server is running.", {"type": "object"})
    metrics = {"description": "Prometheus' text format.", "content": {"text/plain": {}}}
    description: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": f"Inference with a model for {task}", "version": VERSION},
        # The paths begin where this description is: a proxy may add a prefix.
        "servers": [{"url": "."}],
        "paths": {
            **{one.path: {"post": _operation(one, faults)} for one in services},
            "/health": {"get": {"responses": {"200": health}, "security": []}},
            "/metrics": {"get": {"responses": {"200": metrics}}},
        },
    }
    if needs_token:
        description["components"] = {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}
        }
        description["security"] = [{"token": []}]
    return description


def _operation(service: Service, faults: Mapping[str, Any]) -> dict[str, Any]:
    request = _one_or_several(fields.object_schema(service.fields))
    result = _response("The answer, or those to a list.", _one_or_several(service.result))
    return {
        "summary": service.summary,
        "operationId": service.path.rpartition("/")[2],
        "requestBody": {"required": True, "content": _json(request, example=dict(service.example))},
        "responses": {"200": result, **faults},
    }


def _one_or_several(schema: Schema) -> dict[str, Any]:
    return {"oneOf": [schema, {"type": "array", "items": schema}]}


def _json(schema: Any, **more: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema, **more}}


def _response(about: str, schema: Any) -> dict[str, Any]:
    return {"description": about, "content": _json(schema)}
