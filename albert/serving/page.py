"""The page for trying a server in a browser."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import html
import json
import os
import pathlib
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from albert.core.errors import UserError
from albert.core.version import VERSION
from albert.inference.classification import TextClassifier
from albert.report import PREDICTIONS
from albert.report.predictions import read_samples
from albert.serving.services import Service

_EXAMPLES = 3
_FILE = pathlib.Path(__file__).with_name("page.html")
# The service's own example is short because commands quote it; this one shows more.
_STORY = (
    "Harwick has a bridge called Ormen. The Ormen bridge was finished in 1908, is 212 metres high "
    "and weighs 900 tons. It was built of grey granite by Ida Brandt. Many owls live under its "
    "arches."
)
_QUESTIONS = ("How high is Ormen?", "Which material was used for Ormen?", "Who built Ormen?")


def page_of(service: Service, task: str, shows_data: bool) -> tuple[str, dict[str, str]]:
    """Returns the page for a service with a model for a task, and the page's headers.

    `shows_data` is whether examples may be from the data of the model's run.
    """
    about = {
        "task": task,
        "name": _name(service.folder),
        "version": VERSION,
        "summary": service.summary,
        "path": service.path[1:],
        "fields": dict(service.fields),
        "shown": list(service.example),
        "examples": _examples(service, shows_data),
    }
    text = _FILE.read_text(encoding="utf-8")
    page = text.replace('data-model=""', f'data-model="{html.escape(json.dumps(about))}"')
    sources = {kind: _hash(page, kind) for kind in ("script", "style")}
    policy = "".join(f"; {kind}-src '{source}'" for kind, source in sources.items())
    # The headers let a browser run only the page's own script, and connect only to this server.
    return page, {
        "Content-Security-Policy": f"default-src 'none'; connect-src 'self'; img-src data:{policy}"
        "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "Cache-Control": "no-cache",
        "X-Content-Type-Options": "nosniff",
    }


def _examples(service: Service, shows_data: bool) -> list[Mapping[str, Any]]:
    if "context" in service.fields:
        return [{"question": question, "context": _STORY} for question in _QUESTIONS]
    has_data = shows_data and os.path.exists(os.path.join(service.folder, PREDICTIONS))
    # A damaged file of predictions leaves the service's own example.
    with contextlib.suppress(UserError, KeyError):
        if isinstance(service.model, TextClassifier):
            samples = islice(read_samples(service.folder) if has_data else (), _EXAMPLES)
            return [dict(zip(service.fields, one["texts"], strict=False)) for one in samples]
    return [service.example]


def _name(folder: str) -> str:
    """Returns the part of a path that identifies a model, and no more: anyone may see the page."""
    parts = pathlib.Path(folder).resolve().parts
    # An export is DIR/saved_model/TIMESTAMP.
    return next((p for p in reversed(parts) if p != "saved_model" and not p.isdigit()), folder)


def _hash(page: str, kind: str) -> str:
    (content,) = re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"
