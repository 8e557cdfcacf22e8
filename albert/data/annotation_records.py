"""Annotated texts in JSON, as annotation tools export them: one per line, or a list of them."""

from __future__ import annotations

import collections
import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from albert.core.errors import UserError
from albert.core.files import parse_json, read_bytes
from albert.data.annotations import RawSpan, RawText, UnusableTextError
from albert.data.tables import SourceLine, columns, read_lines
from albert.tokenizers.wordpiece_text import words_in

_STRING = r'"([^"\\\n]|\\.)*"'
# The beginning of JSON. The first line of columns may have a bracket too, such as "[ O".
_BEGINNING = re.compile(
    rf'\[*[\[{{]"|{{[ \t]*"|[\[\s]*{{\s*{_STRING}\s*:|\[[\[\s]*{_STRING}\s*[,\]]'
)
# The members that have the spans of a text, and the forms that have them.
_FORMS = {
    "spans": "JSON with spans, as of Prodigy",
    "entities": "JSON with entities, as of doccano",
    "label": "JSON with a list of labels, as of doccano and Label Studio's JSON_MIN",
    "labels": "JSON with a list of labels, as of doccano",
}
_LABEL_STUDIO, _SPACY = "JSON of Label Studio", "JSON of spaCy"
# Other files, by a member that they have.
_QUESTIONS = "this looks like questions; train on them with `albert squad`"
_LABELS = "this looks like labels of whole texts; train on them with `albert classify`"
_OTHERS = {
    **dict.fromkeys(("context", "paragraphs", "data"), _QUESTIONS),
    **dict.fromkeys(("label", "labels", "sentence", "text_a"), _LABELS),
}


class JsonTexts:
    """The texts of a JSON file; `ignored` counts what they have in addition to spans."""

    unusual: Mapping[str, list[SourceLine]] = {}

    def __init__(self, path: str, is_labeled: bool):
        """Reads the first text, whose form is `form`; raises a `UserError` if it is not JSON."""
        self._path, self._is_labeled = path, is_labeled
        self.ignored: collections.Counter[str] = collections.Counter()
        _, first = next(_records(path), (None, None))
        self.form = self._parts(first)[0]
        self.ignored.clear()

    def __iter__(self) -> Iterator[tuple[SourceLine, Any]]:
        for location, record in _records(self._path):
            answer = record.get("answer") if isinstance(record, dict) else None
            if answer in ("reject", "ignore"):
                self.ignored[f"texts with the answer {answer}"] += 1
            else:
                yield location, record

    def parse(self, location: SourceLine, record: Any) -> RawText:
        """Returns the text of a record; raises an `UnusableTextError` if its form is unknown."""
        form, text, values = self._parts(record)
        if not isinstance(text, str) or (self._is_labeled and not _is_list_of_spans(values)):
            keys = list(record) if isinstance(record, dict) else []
            if not keys:
                raise UnusableTextError(location, "not a JSON object")
            is_other = text is None or (values is not None and form != _FORMS["spans"])
            for name in _OTHERS if is_other else ():
                if name in keys:
                    raise location.error(_OTHERS[name])
            reason = '"text" must be a text, and "spans" a list'
            raise UnusableTextError(location, f"{reason}; found {columns(keys)}")
        spans = [_span(location, value) for value in values] if self._is_labeled else []
        return RawText(text, words_in(text), spans)

    def _parts(self, record: Any) -> tuple[str, Any, Any]:
        """Returns the name of a record's form, its text and its spans; None for missing ones."""
        match record:
            case [text, {"entities": values}]:
                return _SPACY, text, values
            case {"data": {**fields}}:
                texts = [value for value in fields.values() if isinstance(value, str)]
                text = fields.get("text", texts[0] if len(texts) == 1 else None)
                return _LABEL_STUDIO, text, self._results(record.get("annotations"))
            case {"text": text}:
                if isinstance(relations := record.get("relations"), list):
                    self.ignored["relations"] += len(relations)
                names = [name for name in _FORMS if name in record]
                filled = [name for name in names if record[name]]
                name = "spans" if "spans" in record else next(iter([*filled, *names]), "label")
                lists = [value for value in record.values() if isinstance(value, list)]
                if not lists and "annotation_id" in record:
                    # A text of JSON_MIN without spans.
                    return _FORMS[name], text, []
                is_clear = name == "spans" or len(filled) < 2
                return _FORMS[name], text, record.get(name) if is_clear else None
        return "JSON", None, None

    def _results(self, annotations: Any) -> list[Any] | None:
        """Returns the spans of a task of Label Studio; None if its annotations are not one."""
        lists = list[list[Any]]()
        for annotation in annotations if isinstance(annotations, list) else ():
            match annotation:
                case {"was_cancelled": True}:
                    continue
                case {"result": [*results]}:
                    spans = [r.get("value") for r in results if _has_labels(r)]
                case _:
                    return None
            self.ignored["results that are no spans"] += len(results) - len(spans)
            if spans not in lists:
                lists.append(spans)
        return lists[0] if len(lists) == 1 else None


def is_json(head: str) -> bool:
    """Returns whether the beginning of a file is that of JSON, and not of columns."""
    head = head.lstrip()
    if _BEGINNING.match(head):
        return True
    return isinstance(_parsed(head.partition("\n")[0]), dict | list)


def _parsed(line: str) -> Any:
    """Returns the value of a line; None if it is only a part of a value."""
    with contextlib.suppress(UserError):
        return parse_json(line, "")
    return None


def _records(path: str) -> Iterator[tuple[SourceLine, Any]]:
    """Yields the records of JSON Lines or of a list, with their lines or numbers."""
    rows = ((location, line) for location, line in read_lines(path) if line.strip())
    for location, line in rows:
        first = _parsed(line)
        # A list of spaCy begins with another list.
        if isinstance(first, dict) or (isinstance(first, list) and isinstance([*first, 0][0], str)):
            yield location, first
            for location, line in rows:
                yield location, parse_json(line, f"{path}, {location.name}")
            return
        content = parse_json(read_bytes(path), path)
        values = content if isinstance(content, list) else [content]
        for number, value in enumerate(values, start=1):
            yield SourceLine(path, number, "text"), value
        return


def _has_labels(result: Any) -> bool:
    match result:
        case {"type": "labels"} | {"value": {"labels": _}}:
            return True
    return False


def _is_list_of_spans(values: Any) -> bool:
    return isinstance(values, list) and (not values or any(not isinstance(v, str) for v in values))


def _span(location: SourceLine, value: Any) -> RawSpan:
    match value:
        case [start, end, label]:
            return RawSpan(location, start, end, label, None, value)
        case {"start": start, "end": end} | {"start_offset": start, "end_offset": end}:
            labels = value.get("labels")
            only = labels[0] if isinstance(labels, list) and len(labels) == 1 else None
            return RawSpan(location, start, end, value.get("label", only), value.get("text"), value)
    return RawSpan(location, None, None, None, None, value)
