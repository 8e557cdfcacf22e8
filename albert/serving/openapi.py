"""The OpenAPI 3.1 description of a server's interface."""

from __future__ import annotations

from typing import Any

from albert.core.version import VERSION
from albert.serving.fields import object_schema
from albert.serving.services import Service

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


def describe(service: Service, task: str, needs_token: bool) -> dict[str, Any]:
    """Returns the description of a service with a model for a task."""
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
