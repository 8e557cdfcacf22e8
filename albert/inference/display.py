"""Display of models and their answers in a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


class FolderDisplay:
    """Base class that displays a model by its attribute `folder`."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {getattr(self, 'folder', '')}>"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Returns a table as HTML, with all texts escaped."""
    cells = ("".join(f"<td>{html.escape(_as_text(value))}</td>" for value in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    head = "".join(f"<th>{html.escape(name)}</th>" for name in heads)
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<tr>{head}</tr>{body}</table>"


def _as_text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
