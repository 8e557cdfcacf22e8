"""Recognition of files of questions, labels or entities, and of others, by their content."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from albert.core.errors import UserError, reporting
from albert.data.tables import NESTED, Table, find_table

QUESTIONS, LABELS, ENTITIES = KINDS = ("questions", "labels", "entities")
_HEAD = 1 << 12
# A line of CoNLL ends in a tag.
_TAGGED = re.compile(r"\S+[ \t](.*[ \t])?(O|[BIESLUM](-\S+)?)")
# A member of JSON with annotated texts, such as a single one on several lines.
_SPANS = re.compile(rb'^[\[{].*"(spans|entities|annotations)"\s*:', re.DOTALL)


class Look(NamedTuple):
    """What a file looks like, for messages, and its kind of `KINDS`, if any."""

    name: str
    kind: str = ""


_COLUMNS = Look("tokens and tags as in CoNLL", ENTITIES)
_FIRST_BYTES = {
    b"PK": Look("a workbook of Excel or another archive; save it as CSV"),
    b"\x1f\x8b": Look("a compressed file; unpack it"),
    b"%PDF": Look("PDF"),
    b"<": Look("XML or HTML"),
    b"-DOCSTART-": _COLUMNS,
}


def look_of(path: str) -> Look:
    """Returns the look of a file, by its first rows; its name is "" if it is unknown."""
    with reporting(f"{path} cannot be read"), open(path, "rb") as file:
        head = file.read(_HEAD).removeprefix(b"\xef\xbb\xbf").lstrip()
    if not head:
        return Look("an empty file")
    for first, known in _FIRST_BYTES.items():
        if head.startswith(first):
            return known
    lines = [line for line in head.decode(errors="replace").splitlines() if line.strip()]
    try:
        if look := _look_of_table(find_table(path)):
            return look
    except UserError:
        pass
    if _SPANS.search(head):
        return Look("annotated texts", ENTITIES)
    # The last line may be incomplete.
    tagged = [_TAGGED.fullmatch(line.rstrip("\r")) for line in lines[:20] if line[:1] != "#"]
    if tagged and all(tagged):
        return _COLUMNS
    return Look("")


def _look_of_table(table: Table) -> Look | None:
    names = set(table.columns)
    if names & {"context", "question", *NESTED}:
        return Look("questions", QUESTIONS)
    row: Mapping[str, Any] = {}
    if not table.has_cells:
        row = next((row for _, row in table.rows()), row)
    if "annotations" in names or ("text" in names and _is_spans(row.get("label"), dict)):
        return Look("annotated texts of Label Studio", ENTITIES)
    is_text = isinstance(row.get("text", row.get("data")), str)
    if is_text and (names & {"entities", "spans"} or _is_spans(row.get("label"), list)):
        tool = "" if "spans" in names else " of doccano or spaCy"
        return Look(f"annotated texts{tool}", ENTITIES)
    if names & {"text_a", "label", "labels"}:
        return Look("a table of labels", LABELS)
    return None


def _is_spans(value: Any, kind: type) -> bool:
    return bool(value) and isinstance(value, list) and isinstance(value[0], kind)
