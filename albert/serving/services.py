"""The services of a server, by the model's task: fields, results, and their description."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from albert.core.version import VERSION
from albert.inference import Model
from albert.inference.as_json import answer_as_json, span_as_json
from albert.inference.base import SpanFinder
from albert.inference.classification import OptionChooser, TextClassifier
from albert.inference.squad import QuestionAnswerer
from albert.serving import fields
from albert.serving.fields import Schema

# Requests have values for all fields.
Requests = Sequence[Mapping[str, Any]]
Pause = Callable[[], None] | None
_PROBABILITY = {"type": "number", "minimum": 0, "maximum": 1}
_PROBABILITIES = {"type": "object", "additionalProperties": _PROBABILITY}
_TEXT, _COUNT = {"type": "string"}, {"type": "integer"}
# A span as `span_as_json` writes it, without a label.
_SPAN: dict[str, Schema] = {"text": _TEXT, "probability": _PROBABILITY, "sentence": _TEXT}
_SPAN |= dict.fromkeys(("start", "end", "line", "character"), _COUNT)
# Approximate number of bytes per token.
_BYTES = 4
# Reasons for errors, by status.
FAULTS = {
    400: "The body is not JSON in UTF-8.",
    401: "The token is missing or wrong.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The body is not of the type application/json.",
    421: "The server does not have this host name; allow it with --allowed_hosts.",
    422: "The JSON lacks a field, or a field is not as described.",
    500: "The model failed; see the server's log.",
    503: "Too many requests are waiting, too many connections are in use, or the server is "
    "shutting down. Retry-After says when to try again.",
    504: "The answer was not ready in time.",
}


class Service:
    """The interface of a server for a task.

    `fields` are the schemas of a request's fields, and `result` is the JSON schema of an answer.
    `example` has values of the fields without a default.
    """

    summary: str
    fields: Mapping[str, Schema]
    example: Mapping[str, Any]
    result: Schema

    def __init__(self, model: Model):
        longest = model.folder.value("max_seq_length")
        self._model: Any = model
        self.folder = model.folder.path
        self._lengths = longest, longest

    def answer_all(self, requests: Requests, pause: Pause = None) -> list[dict[str, Any]]:
        """Answers requests in batches; calls `pause`, which may raise, between windows if many."""
        raise NotImplementedError

    def windows(self, size: int) -> int:
        """Returns the approximate number of windows of a request with a size in bytes."""
        longest, step = self._lengths
        return 1 + -(-max(size // _BYTES - longest, 0) // step)

    def warm_up(self) -> None:
        """Answers the example, because the first use of a model is slow."""
        self.answer_all([fields.read(self.example, self.fields)])


class QuestionService(Service):
    """A service that answers questions with a model trained on SQuAD."""

    summary = "Answers a question from a text."
    example = {"question": "Who wrote it?", "context": "Anna wrote it in a week."}

    def __init__(self, model: QuestionAnswerer):
        super().__init__(model)
        self._lengths = self._lengths[0], model.folder.value("doc_stride")
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
            abstains={"type": "boolean"},
            no_answer_probability={**_PROBABILITY, "type": ["number", "null"]},
            answers={"type": "array", "items": _object(**_SPAN)},
        )

    def answer_all(self, requests: Requests, pause: Pause = None) -> list[dict[str, Any]]:
        pairs = [(a["question"], [a["context"]]) for a in requests]
        all_answered = self._model.answer_all(pairs, pause)
        return [
            answer_as_json(a["question"], answered, [a["context"]], a["n_best"])
            for a, answered in zip(requests, all_answered, strict=True)
        ]


class TextService(Service):
    """A service that labels texts with a model trained on GLUE or on your own task."""

    summary = "Labels a text or a pair of texts."
    example = {"text": "It was raining.", "second_text": "The street is wet."}
    fields = {
        "text": fields.text("The text, or the first text of a pair."),
        "second_text": fields.text("The second text, for tasks with pairs.", may_be_empty=True),
    }

    def __init__(self, model: TextClassifier):
        super().__init__(model)
        self._lengths = self._lengths[0], model.stride or self._lengths[0]
        self.result = _labelled(model.labels)
        if model.is_multi_label:
            labels = {"type": "array", "items": {"enum": list(model.labels)}}
            self.result = _object(labels=labels, probabilities=_PROBABILITIES)

    def answer_all(self, requests: Requests, pause: Pause = None) -> list[dict[str, Any]]:
        pairs = [(one["text"], one["second_text"]) for one in requests]
        return [labelled._asdict() for labelled in self._model.classify_all(pairs, pause)]


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

    def answer_all(self, requests: Requests, pause: Pause = None) -> list[dict[str, Any]]:
        chosen = self._model.choose_all([tuple(one.values()) for one in requests])
        return [labelled._asdict() for labelled in chosen]


class SpanService(Service):
    """A service that finds spans with labels in texts."""

    summary = "Finds the parts of a text that have a label."
    example = {"text": "Anna wrote it in Rome."}
    fields = {"text": fields.text("The text.")}

    def __init__(self, model: SpanFinder):
        super().__init__(model)
        self._lengths = self._lengths[0], self._lengths[0] // 2
        item = _object(label={"enum": list(model.labels)}, **_SPAN)
        self.result = _object(spans={"type": "array", "items": item})

    def answer_all(self, requests: Requests, pause: Pause = None) -> list[dict[str, Any]]:
        texts = [one["text"] for one in requests]
        rows = zip(texts, self._model.find_all(texts, pause), strict=True)
        return [{"spans": [span_as_json(s, text) for s in spans]} for text, spans in rows]


_SERVICES = {
    QuestionAnswerer: QuestionService,
    TextClassifier: TextService,
    OptionChooser: ChoiceService,
    SpanFinder: SpanService,
}


def service_of(model: Model) -> Service:
    """Returns the service for a model."""
    return next(service(model) for kind, service in _SERVICES.items() if isinstance(model, kind))


def _labelled(labels: Sequence[str | None]) -> Schema:
    is_number = list(labels) == [None]
    return _object(
        label={"type": "null"} if is_number else {"enum": list(labels)},
        probabilities=_PROBABILITIES,
        number={"type": "number" if is_number else "null"},
    )


def _object(**properties: Schema) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def describe(service: Service, task: str, needs_token: bool) -> dict[str, Any]:
    """Returns the OpenAPI 3.1 description of a service with a model for a task."""
    error = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    faults = {str(code): _response(about, error) for code, about in FAULTS.items()}
    answer = {
        "summary": service.summary,
        "operationId": "answer",
        "requestBody": {
            "required": True,
            "content": _json(fields.object_schema(service.fields), dict(service.example)),
        },
        "responses": {"200": _response("The answer.", service.result), **faults},
    }
    health = _response("The server is running.", {"type": "object"})
    metrics = {"description": "Prometheus' text format.", "content": {"text/plain": {}}}
    description: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": f"Inference with a model for {task}", "version": VERSION},
        "paths": {
            "/v1/answer": {"post": answer},
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


def _json(schema: Any, example: Any = None) -> dict[str, Any]:
    content = {"schema": schema}
    if example is not None:
        content["example"] = example
    return {"application/json": content}


def _response(about: str, schema: Any) -> dict[str, Any]:
    return {"description": about, "content": _json(schema)}
