"""Recognition of files of questions, labels or entities, and of others, by their content."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from albert.core.errors import UserError, reporting
from albert.tables.tables import NESTED, Table, find_table, opened

QUESTIONS, LABELS, ENTITIES = KINDS = ("questions", "labels", "entities")
# The command that trains on a kind.
_COMMANDS = {QUESTIONS: "squad", LABELS: "classify", ENTITIES: "entities"}
_HEAD = 1 << 12
# Number of rows that show what a table has.
_ROWS = 32
# A line of CoNLL ends in a tag.
_TAGGED = re.compile(r"\S+[ \t](.*[ \t])?(O|[BIESLUM](-\S+)?)")
_OUTSIDE = {"O", "o", "0"}
# A member of JSON with annotated texts, such as a single one on several lines.
_SPANS = re.compile(rb'^[\[{].*"(spans|entities|annotations)"\s*:', re.DOTALL)
# The columns with numbers of sentences, tokens and tags; of several, the first one has them.
_TOKEN_COLUMNS = (
    (r"sent(ence)?[ _]*(#|id|idx|no|num|number)?",),
    ("tokens?", "words?"),
    ("ner_tags?", "ner", "tags", "labels", "tag", "label"),
)


class Look(NamedTuple):
    """What a file looks like, for messages, and its kind of `KINDS`, if any."""

    name: str
    kind: str = ""

    @property
    def advice(self) -> str:
        """Returns the name, and the command for the kind."""
        return self.name + (f": use `albert {_COMMANDS[self.kind]}`" if self.kind else "")


STANDOFF, WEBANNO = Look("Brat standoff", ENTITIES), Look("WebAnno TSV 3", ENTITIES)
TOKENS, _TEXTS = Look("tokens and tags", ENTITIES), Look("annotated texts with spans", ENTITIES)
COLUMNS = Look("tokens and tags as in CoNLL", ENTITIES)
_QUESTIONS, _LABELS = Look("questions", QUESTIONS), Look("a table of labels", LABELS)
_CHOICES = Look("choices of Label Studio", LABELS)
# Files by their first bytes, and documents by all keys that their form has.
_BEGINNINGS = {
    rb"%PDF": Look("PDF"),
    rb"x\x9c": Look(
        "a DocBin of spaCy; for each doc of DocBin().from_disk(FILE).get_docs(vocab), write a line "
        "of JSON with its text, and as spans start_char, end_char and label_ of its ents"
    ),
    rb"<(!|\?|html|\w+>\s*<)": Look("XML or HTML"),
    rb"-DOCSTART-": COLUMNS,
    rb"#FORMAT=WebAnno TSV 3": WEBANNO,
    rb'[\[{](?=.*"paragraphs"\s*:)(?=.*"sentences"\s*:)(?=.*"tokens"\s*:)': Look(
        "training data of spaCy 2; convert it with `spacy convert`, and then as a DocBin"
    ),
    rb'\{(?=.*"classes"\s*:)(?=.*"annotations"\s*:)': _TEXTS,
}


def standoff_files(path: str) -> list[str]:
    """Returns the .ann files that a path names or, if it is a folder, has."""
    with reporting(f"{path} cannot be read"):
        names = sorted(os.listdir(path)) if os.path.isdir(path) else [""]
    paths = (os.path.join(path, name) if name else path for name in names)
    return [name for name in paths if name.endswith(".ann")]


def token_columns(names: Iterable[str]) -> tuple[str, str, str]:
    """Returns the columns with numbers of sentences, tokens and tags; "" for missing ones."""

    def find(patterns: tuple[str, ...]) -> str:
        fitting = (n for p in patterns for n in names if re.fullmatch(p, n, re.IGNORECASE))
        return next(fitting, "")

    sentence, token, tag = map(find, _TOKEN_COLUMNS)
    return sentence, token, tag


def look_of(path: str) -> Look:
    """Returns the look of a file, by its first rows; its name is "" if it is unknown."""
    if standoff_files(path):
        return STANDOFF
    with opened(path) as file:
        head = file.read(_HEAD).removeprefix(b"\xef\xbb\xbf").lstrip()
    if not head:
        return Look("an empty file")
    lines = [line for line in head.decode(errors="replace").splitlines() if line.strip()]
    # The last line may be incomplete.
    is_cut = len(head) == _HEAD and len(lines) > 1
    lines = [line for line in lines[: -1 if is_cut else None][:20] if line[0] != "#"]
    if lines and all(map(_TAGGED.fullmatch, lines)):
        return COLUMNS
    for beginning, look in _BEGINNINGS.items():
        if re.match(beginning, head, re.DOTALL | re.IGNORECASE):
            return look
    with contextlib.suppress(UserError):
        if known := _look_of_table(find_table(path)):
            return known
    if _SPANS.search(head):
        return _TEXTS
    if head[:1] in b"[{":
        return Look("")
    rows = [line.split("\t" if "\t" in line else None) for line in lines]
    # Tags may have another form, which the reader names; in CoNLL-U, there are ten columns.
    if len(widths := {1, *map(len, rows)}) == 2 and (
        any(_OUTSIDE & {row[0], row[-1]} for row in rows)
        or (10 in widths and rows[0][0][0].isdigit())
    ):
        return COLUMNS
    return Look("")


def _look_of_table(table: Table) -> Look | None:
    names, rows = {*table.columns}, list[Mapping[str, Any]]()
    if names & {*NESTED} or names >= {"context", "question"}:
        return _QUESTIONS
    with contextlib.suppress(UserError):
        for _, row in itertools.islice(table.rows(), _ROWS):
            rows.append(row)
    if any(map(_has_tokens, rows)) or (not rows and all(token_columns(table.columns))):
        return TOKENS
    looks = [] if table.has_cells else list(filter(None, map(_look_of_row, rows)))
    # Some tasks of Label Studio may have choices only, and others spans.
    if looks:
        return next((look for look in looks if look is not _CHOICES), _CHOICES)
    is_table = "text_a" in names or (len(names) > 1 and names & {"label", "labels"})
    return _LABELS if is_table else None


def _look_of_row(row: Mapping[str, Any]) -> Look | None:
    """Returns the look of a row of JSON, by all keys that its form needs, and by their values."""
    match row:
        case {"data": {}, "annotations": [*annotations]}:
            lists = [a.get("result") for a in annotations if isinstance(a, dict)]
            results = [r for one in lists if isinstance(one, list) for r in one]
            if {str(r.get("type")) for r in results if isinstance(r, dict)} == {"choices"}:
                return _CHOICES
            return Look("annotated texts of Label Studio", ENTITIES)
        case {"header": {}}:
            return _QUESTIONS
        case {"id": _, "prediction_text": _}:
            return Look("predictions; pass them to `albert evaluate`")
        case {"text": str(), "label": [{"start": _}, *_]}:
            return Look("annotated texts of Label Studio", ENTITIES)
        case {"text": str(), "spans": [*_] | None}:
            return _TEXTS
        case {"content": str(), "annotation": [{"points": _}, *_]}:
            return Look("annotated texts of Dataturks", ENTITIES)
        case {"text": str()} | {"data": str()}:
            lists = [row.get(name) for name in ("entities", "label", "labels")]
            if any(
                isinstance(one, list) and isinstance([*one, 0][0], list | dict) for one in lists
            ):
                return Look("annotated texts of doccano or spaCy", ENTITIES)
    return None


def _has_tokens(row: Mapping[str, Any]) -> bool:
    """Returns whether a row has tokens with tags, or a token with a tag, or with its sentence."""
    if isinstance(row.get("text"), str) and isinstance(row.get("spans"), list):
        return False
    sentence, token, tag = token_columns(row)
    if not token or not (tag or sentence or "text" not in row):
        return False
    values = [str(row[name]) for name in (token, tag) if name]
    are_lists = all(re.match(r"\[['\"\d]", value) for value in values)
    is_tagged = re.fullmatch(r"O|[BI]-.+", values[1]) if tag else sentence
    return are_lists or bool(is_tagged)
