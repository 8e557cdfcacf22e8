"""Annotated texts in JSON, as annotation tools export them: one per line, or a list of them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from albert.core.errors import UserError
from albert.core.files import parse_json
from albert.tables.tables import SourceLine, columns, read_lines, read_whole_lines
from albert.tasks.entities.annotated_files import AnnotatedFile, RawSpan, RawText, UnusableTextError
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
_LABEL_STUDIO, _SPACY = "JSON of Label Studio", "JSON of spaCy or NER Annotator"
_DATATURKS = "JSON of Dataturks"
# The members of a file of NER Annotator.
_NER_ANNOTATOR = {"classes", "annotations"}


class JsonFile(AnnotatedFile):
    """A JSON file, whose form is that of its first text."""

    form = ""

    def __iter__(self) -> Iterator[tuple[SourceLine, Any]]:
        for location, record in _records(self.path):
            match record:
                case {"answer": "reject" | "ignore" as answer}:
                    self.ignored[f"texts with the answer {answer}"] += 1
                case {"data": {}, "annotations": [*annotations]} if self.is_labeled and all(
                    isinstance(one, dict) and one.get("was_cancelled") for one in annotations
                ):
                    what = "were canceled" if annotations else "do not exist"
                    self.ignored[f"tasks whose annotations {what}"] += 1
                case _:
                    yield location, record

    def parse(self, location: SourceLine, record: Any) -> RawText:
        """Returns the text of a record; raises an `UnusableTextError` if its form is unknown."""
        form, text, values = self._parts(location, record)
        self.form = self.form or form
        if not isinstance(text, str) or (self.is_labeled and not _is_list_of_spans(values)):
            if not (keys := list(record) if isinstance(record, dict) else []):
                raise UnusableTextError(location, "not a JSON object")
            reason = '"text" must be a text, and "spans" a list'
            raise UnusableTextError(location, f"{reason}; found {columns(keys)}")
        spans = [_span(location, value) for value in values] if self.is_labeled else []
        return RawText(text, words_in(text), spans)

    def _parts(self, location: SourceLine, record: Any) -> tuple[str, Any, Any]:
        """Returns the name of a record's form, its text and its spans; None for missing ones."""
        match record:
            case [text, {"entities": values}] | {"content": text, "entities": values}:
                return _SPACY, text, values
            case {"content": text, "annotation": [*_] | None as values}:
                return _DATATURKS, text, [_dataturks_span(value) for value in values or ()]
            case {"data": {**fields}}:
                return _LABEL_STUDIO, *self._task(location, fields, record.get("annotations"))
            case {"text": text}:
                if isinstance(relations := record.get("relations"), list):
                    self.ignored["relations"] += len(relations)
                names = [name for name in _FORMS if name in record]
                filled = [name for name in names if record[name]]
                name = "spans" if "spans" in record else next(iter([*filled, *names]), "label")
                lists = [value for value in record.values() if isinstance(value, list)]
                # A text of JSON_MIN or Prodigy without spans.
                is_empty = not lists and "annotation_id" in record
                if is_empty or (not names and "answer" in record) or record.get(name, 0) is None:
                    return _FORMS[name], text, []
                is_clear = name == "spans" or len(filled) < 2
                return _FORMS[name], text, record.get(name) if is_clear else None
        return "JSON", None, None

    def _task(
        self, location: SourceLine, fields: Mapping[Any, Any], annotations: Any
    ) -> tuple[Any, list[Any] | None]:
        """Returns the text of a task of Label Studio, and the spans of its annotation."""
        lists, targets = list[list[Any]](), set[str]()
        if annotations is None and self.is_labeled:
            raise UnusableTextError(location, "the task has no annotations")
        for annotation in annotations if isinstance(annotations, list) else ():
            match annotation:
                case {"was_cancelled": True}:
                    continue
                case {"result": [*results]}:
                    spans = [result for result in results if _has_labels(result)]
                case _:
                    return None, None
            for result in results if self.is_labeled else ():
                if result not in spans:
                    kind = str(result.get("type")) if isinstance(result, dict) else "none"
                    if kind.endswith("labels"):
                        raise UnusableTextError(location, "... are no spans of a plain text", kind)
                    self.ignored[f"results that are {kind}"] += 1
            targets |= {str(result.get("to_name", "text")) for result in spans}
            if (values := [result.get("value") for result in spans]) not in lists:
                lists.append(values)
        if len(lists) > 1 and self.is_labeled:
            raise UnusableTextError(location, "the ... annotations of the task differ", len(lists))
        texts = [name for name, value in fields.items() if isinstance(value, str)]
        names = [name for name in (*sorted(targets), "text") if name in texts] or texts
        if len(targets) > 1 or (len(names) > 1 and names[0] not in (*targets, "text")):
            reason = "spans may be those of several texts, ...; name theirs text"
            raise UnusableTextError(location, reason, ", ".join(texts))
        return fields.get(names[0]) if names else None, lists[0] if lists else None


def _dataturks_span(value: Any) -> Any:
    """Returns a span of Dataturks, whose end is its last character, in the form of others."""
    match value:
        case {"label": label, "points": [{"start": start, "end": int(end)} as point]}:
            labels = label if isinstance(label, list) else [label]
            return {**point, "start": start, "end": end + 1, "labels": labels}
    return value


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
        is_line = isinstance(first, list) and isinstance([*first, 0][0], str)
        if is_line or (isinstance(first, dict) and not first.keys() >= _NER_ANNOTATOR):
            yield location, first
            for location, line in rows:
                yield location, parse_json(line, f"{path}, {location.name}")
            return
        content = parse_json("".join(line for _, line in read_whole_lines(path)), path)
        is_whole = isinstance(content, dict) and content.keys() >= _NER_ANNOTATOR
        values = content["annotations"] if is_whole else content
        for number, value in enumerate(values if isinstance(values, list) else [values], start=1):
            # NER Annotator writes null for texts without annotations.
            if value is not None or not is_whole:
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
