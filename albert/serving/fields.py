"""The fields of a request: their JSON schemas, and errors for a body that does not match."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException

from albert.core.text import is_utf8

Schema = Mapping[str, Any]


def text(about: str, may_be_empty: bool = False) -> dict[str, Any]:
    """Returns the schema of a text."""
    schema = {"type": "string", "description": about}
    return {**schema, "default": ""} if may_be_empty else {**schema, "pattern": r"\S"}


def texts(about: str, count: int) -> dict[str, Any]:
    """Returns the schema of a list of `count` texts."""
    items = {"type": "string", "pattern": r"\S"}
    sizes = {"minItems": count, "maxItems": count}
    return {"type": "array", "description": about, "items": items, **sizes}


def number(about: str, most: int) -> dict[str, Any]:
    """Returns the schema of an integer from 1 to `most`; the default is 1."""
    bounds = {"minimum": 1, "maximum": most, "default": 1}
    return {"type": "integer", "description": about, **bounds}


def object_schema(fields: Mapping[str, Schema]) -> dict[str, Any]:
    """Returns the schema of an object with these fields; those without a default are required."""
    required = [name for name, schema in fields.items() if "default" not in schema]
    parts = {"properties": dict(fields), "required": required, "additionalProperties": False}
    return {"type": "object", **parts}


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
    elif "pattern" in schema and not re.search(schema["pattern"], value):
        fault = "is empty"
    elif not is_utf8(value):
        fault = "has half of a surrogate pair, which is not valid text"
    if fault:
        raise HTTPException(422, f"{name!r} {fault}")
