"""The page to try a server by hand."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import pathlib
import re

from runtime.version import VERSION
from serving.services import Service

_FILE = pathlib.Path(__file__).with_name("page.html")


def page_of(service: Service, task: str) -> tuple[str, dict[str, str]]:
    """Returns the page for what is answered with a model of a task, and its headers.

    The headers let a browser run the page's own script and no other, and talk to this server alone.
    """
    about = {
        "task": task,
        "version": VERSION,
        "summary": service.summary,
        "fields": dict(service.fields),
        "example": dict(service.example),
    }
    text = _FILE.read_text(encoding="utf-8")
    page = text.replace('data-model=""', f'data-model="{html.escape(json.dumps(about))}"')
    sources = {kind: _hash(page, kind) for kind in ("script", "style")}
    policy = "".join(f"; {kind}-src '{source}'" for kind, source in sources.items())
    return page, {
        "Content-Security-Policy": f"default-src 'none'; connect-src 'self'; img-src data:{policy}"
        "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        "Cache-Control": "no-cache",
        "X-Content-Type-Options": "nosniff",
    }


def _hash(page: str, kind: str) -> str:
    (content,) = re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"
