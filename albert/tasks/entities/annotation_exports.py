"""Files of annotated texts in any form, and those of Brat."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator

from albert.core.errors import UserError
from albert.tables.kinds import ENTITIES, STANDOFF, TOKENS, WEBANNO, look_of, standoff_files
from albert.tables.tables import SourceLine, read_lines, read_whole_lines
from albert.tasks.entities.annotated_files import AnnotatedFile, RawSpan, RawText, UnusableTextError
from albert.tasks.entities.annotation_columns import ColumnFile, TokenFile, WebAnnoFile
from albert.tasks.entities.annotation_records import JsonFile, is_json
from albert.tasks.entities.settings import FormatSettings
from albert.tokenizers.wordpiece_text import words_in

# Number of lines that show whether a file is JSON.
_HEAD = 32
# A line of Brat with an entity, which may have several parts.
_ENTITY = re.compile(r"T\S*\t(\S+) (\d+ \d+(?:;\d+ \d+)*)(?:\t(.*))?")
_USUAL_FORMAT = FormatSettings()


class StandoffFile(AnnotatedFile):
    """Documents of Brat: a .txt file has the text, and an .ann file of that name the entities."""

    form = STANDOFF.name

    def __iter__(self) -> Iterator[tuple[SourceLine, str]]:
        for path in standoff_files(self.path):
            unit = "line" if path == self.path else f"{os.path.basename(path)}, line"
            yield SourceLine(path, 1, unit), path.removesuffix("ann") + "txt"

    def parse(self, location: SourceLine, path: str) -> RawText:
        """Returns a document; raises an `UnusableTextError` for an entity that has gaps."""
        text, spans = "".join(line for _, line in read_whole_lines(path)), list[RawSpan]()
        for (_, number, _), line in read_lines(location.path) if self.is_labeled else ():
            where, entity = location._replace(line=number), _ENTITY.fullmatch(line)
            if not entity and line[:1] != "T":
                self.ignored["lines that are no entities"] += bool(line)
                continue
            edges = list(map(int, re.findall(r"\d+", entity[2]))) if entity else []
            # An entity that continues in another line has parts, too.
            gaps = [text[slice(*gap)] for gap in zip(edges[1::2], edges[2::2], strict=False)]
            if not entity or any(map(str.strip, gaps)):
                raise UnusableTextError(where, "the entity ... has gaps, or no offsets", line)
            spans.append(RawSpan(where, edges[0], edges[-1], entity[1], entity[3], line))
        return RawText(text, words_in(text), spans)


_FILES = {STANDOFF: StandoffFile, WEBANNO: WebAnnoFile, TOKENS: TokenFile}


def open_annotated(
    path: str, is_labeled: bool = True, settings: FormatSettings = _USUAL_FORMAT
) -> AnnotatedFile:
    """Recognizes the form of a file; raises a `UserError` if it is of no known form, or unreadable.

    For `is_labeled`, see `AnnotatedFile`.
    """
    look = look_of(path)
    # A test set may have any labels.
    if look.name and look.kind != ENTITIES and (is_labeled or not look.kind):
        raise UserError(f"{path} looks like {look.advice}")
    kind: type[AnnotatedFile] | None = _FILES.get(look)
    if not kind:
        head = itertools.islice(read_whole_lines(path), _HEAD)
        kind = JsonFile if is_json("".join(line for _, line in head)) else ColumnFile
    return kind(path, is_labeled, settings)
