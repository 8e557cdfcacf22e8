"""The fields of a request, and errors for a body that does not match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException

from albert.core.text import is_utf8

# The type of a field and its limits, as JSON schemas say them; the page of the server reads them.
Schema = Mapping[str, Any]
TEXT: Schema = {"type": "string"}
# A text that may also be empty.
OPTIONAL_TEXT: Schema = {"type": "string", "default": ""}


def texts(count: int) -> Schema:
    """Returns the schema of a list of `count` texts."""
    return {"type": "array", "items": TEXT, "minItems": count}


def number(most: int) -> Schema:
    """Returns the schema of an integer from 1 to `most`; the default is 1."""
    return {"type": "integer", "minimum": 1, "maximum": most, "default": 1}


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
    kind, fault = schema["type"], ""
    if kind == "integer":
        low, high = schema["minimum"], schema["maximum"]
        if type(value) is not int or not low <= value <= high:
            fault = f"must be an integer from {low} to {high}"
    elif kind == "array":
        if not isinstance(value, list) or len(value) != schema["minItems"]:
            fault = f"must be a list of {schema['minItems']} texts"
        for number, item in enumerate([] if fault else value):
            _check(f"{name}[{number}]", item, schema["items"])
    elif not isinstance(value, str):
        fault = "must be a text"
    elif "default" not in schema and not value.strip():
        fault = "is empty"
    elif not is_utf8(value):
        fault = "has half of a surrogate pair, which is not valid text"
    if fault:
        raise HTTPException(422, f"{name!r} {fault}")
