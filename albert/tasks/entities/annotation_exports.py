"""Annotated texts as other programs write them: tables of tokens, TSV of WebAnno, files of Brat."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from albert.core.errors import UserError
from albert.core.files import read_json
from albert.core.text import python_literal
from albert.tables.kinds import STANDOFF, WEBANNO, standoff_files, token_columns
from albert.tables.tables import SourceLine, columns, find_table, read_lines, read_whole_lines
from albert.tasks.entities.annotation_columns import TaggedTexts, TaggedToken
from albert.tasks.entities.annotations import RawSpan, RawText, UnusableTextError
from albert.tokenizers.wordpiece_text import words_in

# A line of Brat with an entity, which may have several parts.
_ENTITY = re.compile(r"T\S*\t(\S+) (\d+ \d+(?:;\d+ \d+)*)(?:\t(.*))?")
# A cell of WebAnno: a label, and the number of an annotation that several tokens have.
_CELL = re.compile(r"((?:\\.|[^\\|*\[])+)(?:\[(\d+)\])?")
_Sentences = Iterator[tuple[SourceLine, list[TaggedToken]]]


class TokenTexts(TaggedTexts):
    """Sentences of a table: a row has a list of tokens and one of tags, or a token and its tag."""

    def __init__(self, path: str, is_labeled: bool, *_: object):
        super().__init__(is_labeled)
        self._table = find_table(path)
        self.form = f"{self._table.format} with tokens and tags"

    def __iter__(self) -> _Sentences:
        tokens, before = list[TaggedToken](), None
        for location, row in self._table.rows():
            sentence, token, tag = token_columns(row)
            if not token or (self._is_labeled and not tag):
                raise location.error(f"tokens or ner_tags are missing; it has {columns(row)}")
            tags = _list_in(row.get(tag)) if self._is_labeled else None
            texts = row[token] if sentence and isinstance(tags, str) else _list_in(row[token])
            if not (sentence or isinstance(texts, list)):
                raise location.error("no column numbers the sentences; add one as sentence_id")
            number = location.line if isinstance(texts, list) else row[sentence]
            # Some tables have the number in the first row of a sentence only.
            if number not in ("", None, before):
                if tokens:
                    yield tokens[0].location, tokens
                tokens, before = [], number
            pairs: Any = [(texts, tags)]
            if isinstance(texts, list):
                pairs = itertools.zip_longest(texts, tags if isinstance(tags, list) else ())
            tokens += [
                TaggedToken(location, text, self._name(location, tag)) for text, tag in pairs
            ]
        if tokens:
            yield tokens[0].location, tokens

    def _name(self, location: SourceLine, tag: Any) -> Any:
        """Returns the name of a tag that is a number; raises a `UserError` if it is unknown."""
        if type(tag) is not int or 0 <= tag < len(self._names):
            return self._names[tag] if type(tag) is int else tag
        raise location.error(
            f"the tag {tag} is a number; write its name instead, which `datasets` has in "
            'dataset.features["ner_tags"].feature.names'
        )

    @functools.cached_property
    def _names(self) -> Sequence[str]:
        """Returns the names of tags, which the Hub has next to its rows."""
        with contextlib.suppress(UserError, LookupError, TypeError):
            features = read_json(self._table.path, "table")["features"]
            types = {one["name"]: one["type"] for one in features}
            return [*types[token_columns(types)[2]]["feature"]["names"]]
        return ()


def _list_in(value: Any) -> Any:
    """Returns the list that a cell has as JSON or Python writes it, or the value itself."""
    is_text = isinstance(value, str) and value[:1] == "["
    return python_literal(value, value) if is_text else value


class WebAnnoTexts(TaggedTexts):
    """Sentences of WebAnno and INCEpTION, with a token, its offsets and its layers in each line."""

    form = WEBANNO.name

    def __init__(self, path: str, is_labeled: bool, _tokens: object, tag_column: int | None):
        """Finds the column of the tags; raises a `UserError` if several may have them."""
        super().__init__(is_labeled)
        self._path, layers = path, dict[int, str]()
        lines = itertools.takewhile(lambda row: row[1][:1] == "#", read_lines(path))
        last = 3
        for kind, _, content in (line.partition("=") for _, line in lines):
            layer, *features = content.split("|")
            for feature in (features or [""]) if kind[:3] == "#T_" else ():
                last += 1
                if kind == "#T_SP":
                    layers[last] = f"{layer.rpartition('.')[2]}.{feature}"
        usual = [number for number, name in layers.items() if name == "NamedEntity.value"]
        self._column, *others = [tag_column] if tag_column else usual or [*layers] or [4]
        if is_labeled and (others or not 4 <= self._column <= last):
            known = ", ".join(f"{number} ({name})" for number, name in layers.items())
            raise UserError(f"{path}: pass the column of the labels as --tag_column: {known}")

    def __iter__(self) -> _Sentences:
        tokens, before, same = list[TaggedToken](), 0, None
        # An empty line ends the last sentence, too.
        for location, line in [*read_lines(self._path), (SourceLine(self._path, 0), "")]:
            if not line and tokens:
                yield tokens[0].location, tokens
                tokens, same = [], None
            if not line or line[0] == "#":
                continue
            try:
                number, offsets, token, *cells = line.split("\t")
                start, end = map(int, offsets.split("-"))
                cell = cells[self._column - 4] if self._is_labeled else "_"
            except (ValueError, IndexError):
                raise location.error("no number, offsets, token and layers") from None
            # Lines with other numbers have annotations of parts of tokens.
            is_part, annotation = "." in number, _CELL.fullmatch(cell)
            tag, is_in = "O", annotation and annotation[2] and annotation[2] == same
            if cell != "_" and annotation:
                tag = f"{'I' if is_in else 'B'}-{_plain(annotation[1])}"
            if cell != "_" and (is_part or not annotation):
                # No tag has a space.
                tag = f"{cell} in {number}"
            if tag != "O" or not is_part:
                tokens.append(TaggedToken(location, _plain(token), tag, " " * (start > before)))
                before, same = end, annotation and annotation[2]


def _plain(text: str) -> str:
    """Returns a text of WebAnno without its escapes."""
    return re.sub(r"\\(.)", r"\1", text)


class StandoffTexts:
    """Documents of Brat: a .txt file has the text, and an .ann file of that name the entities."""

    form, unusual = STANDOFF.name, dict[str, list[SourceLine]]()

    def __init__(self, path: str, is_labeled: bool, *_: object):
        self._path, self._is_labeled = path, is_labeled
        self.ignored = collections.Counter[str]()

    def __iter__(self) -> Iterator[tuple[SourceLine, str]]:
        for path in standoff_files(self._path):
            unit = "line" if path == self._path else f"{os.path.basename(path)}, line"
            yield SourceLine(path, 1, unit), path.removesuffix("ann") + "txt"

    def parse(self, location: SourceLine, path: str) -> RawText:
        """Returns a document; raises an `UnusableTextError` for an entity that has gaps."""
        text, spans = "".join(line for _, line in read_whole_lines(path)), list[RawSpan]()
        for (_, number, _), line in read_lines(location.path) if self._is_labeled else ():
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
