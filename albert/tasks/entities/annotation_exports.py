"""Annotated texts as tools export them, in JSON or as documents of Brat, and files in any form."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from albert.core.errors import UserError
from albert.core.files import parse_json
from albert.tables import kinds
from albert.tables.tables import SourceLine, columns, read_lines, read_whole_lines
from albert.tasks.entities.annotated_files import AnnotatedFile, RawSpan, RawText, UnusableTextError
from albert.tasks.entities.annotation_columns import ColumnFile, TokenFile, WebAnnoFile
from albert.tasks.entities.settings import FormatSettings
from albert.tokenizers.wordpiece_text import words_in

# The beginning of JSON. That of columns may have a bracket too, such as "[ O".
_BEGINNING = re.compile(r'\s*[\[{]\s*["\[{\]}]')
# The members that have the spans of a text, in Prodigy, doccano and Label Studio's JSON_MIN.
_SPANS = ("spans", "entities", "label", "labels")
# A line of Brat with an entity, which may have several parts.
_ENTITY = re.compile(r"T\S*\t(\S+) (\d+ \d+(?:;\d+ \d+)*)(?:\t(.*))?")
_USUAL_FORMAT = FormatSettings()


class JsonFile(AnnotatedFile):
    """A JSON file."""

    def __iter__(self) -> Iterator[tuple[SourceLine, Any]]:
        for location, record in _records(self.path):
            match record:
                case {"answer": "reject" | "ignore" as answer}:
                    self.notes[f"ignored texts with the answer {answer}"] += 1
                case {"data": {}, "annotations": [*annotations]} if self.is_labeled and all(
                    isinstance(one, dict) and one.get("was_cancelled") for one in annotations
                ):
                    what = "were canceled" if annotations else "do not exist"
                    self.notes[f"ignored tasks whose annotations {what}"] += 1
                case _:
                    yield location, record

    def parse(self, location: SourceLine, record: Any) -> RawText:
        """Returns the text of a record; raises an `UnusableTextError` if its form is unknown."""
        text, values = self._parts(location, record)
        if not isinstance(text, str) or (self.is_labeled and not isinstance(values, list)):
            if not isinstance(record, dict) or not record:
                raise UnusableTextError(location, "not a JSON object")
            reason = '"text" must be a text, and "spans" a list'
            raise UnusableTextError(location, f"{reason}; found {columns(record)}")
        spans = [_span(location, value) for value in values] if self.is_labeled else []
        return RawText(text, words_in(text), spans)

    def _parts(self, location: SourceLine, record: Any) -> tuple[Any, Any]:
        """Returns the text and the spans of a record; None for missing ones."""
        match record:
            case [text, {"entities": values}] | {"content": text, "entities": values}:
                return text, values
            case {"content": text, "annotation": [*_] | None as values}:
                return text, values or []
            case {"data": {**fields}}:
                return self._task(location, fields, record.get("annotations"))
            case {"text": text}:
                if (relations := record.get("relations")) and isinstance(relations, list):
                    self.notes["ignored relations"] += len(relations)
                names = [name for name in _SPANS if name in record]
                filled = [name for name in names if record[name]]
                name = "spans" if "spans" in record else next(iter([*filled, *names]), "label")
                lists = [value for value in record.values() if isinstance(value, list)]
                # A text of JSON_MIN or Prodigy without spans.
                is_empty = not lists and "annotation_id" in record
                if is_empty or (not names and "answer" in record) or record.get(name, 0) is None:
                    return text, []
                is_clear = name == "spans" or len(filled) < 2
                return text, record.get(name) if is_clear else None
        return None, None

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
                    values = self._values(location, results, targets)
                    lists += [] if values in lists else [values]
                case _:
                    return None, None
        if len(lists) > 1 and self.is_labeled:
            raise UnusableTextError(location, "the ... annotations of the task differ", len(lists))
        texts = [name for name, value in fields.items() if isinstance(value, str)]
        names = [name for name in (*sorted(targets), "text") if name in texts] or texts
        if len(targets) > 1 or (len(names) > 1 and names[0] not in (*targets, "text")):
            reason = "spans may be those of several texts, ...; name theirs text"
            raise UnusableTextError(location, reason, ", ".join(texts))
        return fields.get(names[0]) if names else None, lists[0] if lists else None

    def _values(self, location: SourceLine, results: list[Any], targets: set[str]) -> list[Any]:
        """Returns the spans among the results of an annotation, and adds the names of their texts.

        Raises an `UnusableTextError` for spans that are not those of a plain text.
        """
        values = list[Any]()
        for result in results:
            match result:
                case {"type": "labels"} | {"value": {"labels": _}}:
                    targets.add(str(result.get("to_name", "text")))
                    values.append(result.get("value"))
                case _ if self.is_labeled:
                    kind = str(result.get("type")) if isinstance(result, dict) else "none"
                    if kind.endswith("labels"):
                        raise UnusableTextError(location, "... are no spans of a plain text", kind)
                    self.notes[f"ignored results that are {kind}"] += 1
        return values


def _records(path: str) -> Iterator[tuple[SourceLine, Any]]:
    """Yields the records of JSON Lines or of a list, with their lines or numbers."""
    rows = ((location, line) for location, line in read_lines(path) if line.strip())
    (location, line), first = next(rows), None
    with contextlib.suppress(UserError):
        first = parse_json(line, "")
    match first:
        case {"classes": _, "annotations": _}:
            pass
        # The second is a line of spaCy; a list of its texts begins with another list.
        case {} | [str(), *_]:
            yield location, first
            for location, line in rows:
                yield location, parse_json(line, f"{path}, {location.name}")
            return
    content = parse_json("".join(line for _, line in read_whole_lines(path)), path)
    match content:
        case {"classes": _, "annotations": [*values]} | [*values]:
            pass
        case _:
            values = [content]
    for number, value in enumerate(values, start=1):
        # NER Annotator writes null for texts without annotations.
        if value is not None or isinstance(content, list):
            yield SourceLine(path, number, "text"), value


def _span(location: SourceLine, value: Any) -> RawSpan:
    """Returns a span of any tool, without offsets if its form is unknown."""
    match value:
        case [start, end, label]:
            return RawSpan(location, start, end, label, None, value)
        case {"points": [{"start": start, "end": int(end), **point}]}:
            # In Dataturks, it is the offset of the last character.
            end, text = end + 1, point.get("text")
        case {"start": start, "end": end} | {"start_offset": start, "end_offset": end}:
            text = value.get("text")
        case _:
            return RawSpan(location, None, None, None, None, value)
    label = value.get("label", value.get("labels"))
    if isinstance(label, list) and len(label) == 1:
        label = label[0]
    return RawSpan(location, start, end, label, text, value)


class StandoffFile(AnnotatedFile):
    """Documents of Brat: a .txt file has the text, and an .ann file of that name the entities."""

    def __iter__(self) -> Iterator[tuple[SourceLine, str]]:
        for path in kinds.standoff_files(self.path):
            unit = "line" if path == self.path else f"{os.path.basename(path)}, line"
            yield SourceLine(path, 1, unit), path.removesuffix("ann") + "txt"

    def parse(self, location: SourceLine, path: str) -> RawText:
        """Returns a document; raises an `UnusableTextError` for an entity that has gaps."""
        text, spans = "".join(line for _, line in read_whole_lines(path)), list[RawSpan]()
        for (_, number, _), line in read_lines(location.path) if self.is_labeled else ():
            where, entity = location._replace(line=number), _ENTITY.fullmatch(line)
            if not entity and line[:1] != "T":
                if line:
                    self.notes["ignored lines that are no entities"] += 1
                continue
            edges = list(map(int, re.findall(r"\d+", entity[2]))) if entity else []
            # An entity that continues in another line has parts, too.
            gaps = [text[slice(*gap)] for gap in zip(edges[1::2], edges[2::2], strict=False)]
            if not entity or any(map(str.strip, gaps)):
                raise UnusableTextError(where, "the entity ... has gaps, or no offsets", line)
            spans.append(RawSpan(where, edges[0], edges[-1], entity[1], entity[3], line))
        return RawText(text, words_in(text), spans)


_FILES: dict[kinds.Look, type[AnnotatedFile]] = {kinds.COLUMNS: ColumnFile}
_FILES |= {kinds.TOKENS: TokenFile, kinds.STANDOFF: StandoffFile, kinds.WEBANNO: WebAnnoFile}


def open_annotated(
    path: str, is_labeled: bool = True, settings: FormatSettings = _USUAL_FORMAT
) -> AnnotatedFile:
    """Recognizes the form of a file; raises a `UserError` if it is of no known form, or unreadable.

    For `is_labeled`, see `AnnotatedFile`.
    """
    look = kinds.look_of(path)
    # A test set may have any labels.
    if look.name and look.kind != kinds.ENTITIES and (is_labeled or not look.kind):
        raise UserError(f"{path} looks like {look.advice}")
    kind = _FILES.get(look)
    if not kind:
        head = "".join(line for _, line in itertools.islice(read_whole_lines(path), 32))
        kind = JsonFile if _BEGINNING.match(head) else ColumnFile
    file = kind(path, is_labeled, settings)
    file.form = look.name or ("JSON" if kind is JsonFile else kinds.COLUMNS.name)
    return file
