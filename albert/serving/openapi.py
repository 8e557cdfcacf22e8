"""The description of a server's interface, in the form of OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from albert.core.version import VERSION
from albert.serving.fields import object_schema
from albert.serving.services import Service

# Why a request is not answered, by the status that says so.
FAULTS = {
    400: "The body is not JSON in UTF-8.",
    401: "The token is missing or wrong.",
    408: "The body did not come in time.",
    413: "The body is too large.",
    415: "The body is not of the type application/json.",
    421: "The server has no such name; --allowed_hosts gives it some.",
    422: "The JSON lacks a field, or a field is not as described.",
    500: "The model failed; the server's log says how.",
    503: "Too many requests wait already, or too many connections are in use, or the server ends. "
    "Retry-After says when to try again.",
    504: "There was no answer in time.",
}


def describe(service: Service, task: str, needs_token: bool) -> dict[str, Any]:
    """Returns the description of what is answered with a model of a task."""
    error = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    faults = {str(code): _response(about, error) for code, about in FAULTS.items()}
    answer = {
        "summary": service.summary,
        "operationId": "answer",
        "requestBody": {
            "required": True,
            "content": _json(object_schema(service.fields), dict(service.example)),
        },
        "responses": {"200": _response("The answer.", service.result), **faults},
    }
    health = _response("It answers.", {"type": "object"})
    metrics = {"description": "Prometheus' text.", "content": {"text/plain": {}}}
    description: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": f"Answers of a model of {task}", "version": VERSION},
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
