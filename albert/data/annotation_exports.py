"""Annotated texts as other programs write them: tables of tokens, TSV of WebAnno, files of Brat."""

from __future__ import annotations

import ast
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
from albert.data.annotation_columns import TaggedTexts, TaggedToken
from albert.data.annotations import RawSpan, RawText, UnusableTextError
from albert.data.kinds import STANDOFF, WEBANNO, standoff_files, token_columns
from albert.data.tables import JSON, SourceLine, columns, find_table, read_lines, read_whole_lines
from albert.tokenizers.wordpiece_text import words_in

# A line of Brat with an entity, which may have several parts.
_ENTITY = re.compile(r"T\S*\t(\S+) (\d+ \d+(?:;\d+ \d+)*)(?:\t(.*))?")
# A cell of WebAnno: a label, and the number of an annotation that several tokens have.
_CELL = re.compile(r"((?:\\.|[^\\|\[])+)(?:\[(\d+)\])?")
_Tokens = tuple[SourceLine, Any, Any]


class TokenTexts(TaggedTexts):
    """Sentences of a table: a row has a list of tokens and one of tags, or a token and its tag."""

    def __init__(self, path: str, is_labeled: bool, *_: object):
        super().__init__(is_labeled)
        self._table = find_table(path)
        self.form = f"{self._table.format} with tokens and tags"

    @functools.cached_property
    def _names(self) -> Sequence[str]:
        """Returns the names of tags that are numbers, which the Hub has beside its rows."""
        document = read_json(self._table.path, "table") if self._table.delimiter == JSON else None
        match document:
            case {"features": [*features]}:
                types = {one.get("name", ""): one.get("type") for one in features}
                match types.get(token_columns(types)[2]):
                    case {"feature": {"names": [*names]}}:
                        return names
        return ()

    def __iter__(self) -> Iterator[tuple[SourceLine, list[_Tokens]]]:
        return ((rows[0][0], rows) for rows in self._sentences())

    def _sentences(self) -> Iterator[list[_Tokens]]:
        rows, before = list[_Tokens](), None
        for location, row in self._table.rows():
            sentence, token, tag = token_columns(row)
            if not token or (self._is_labeled and not tag):
                raise location.error(f"tokens or ner_tags are missing; found {columns(row)}")
            tags = _list_in(row.get(tag))
            is_one = sentence and not isinstance(tags, list)
            tokens = row[token] if is_one else _list_in(row[token])
            if isinstance(tokens, list):
                yield [(location, tokens, tags)]
                continue
            if not sentence:
                raise location.error("no column numbers the sentences; add one as sentence_id")
            # Some files have the number in the first row of a sentence only.
            if rows and row[sentence] not in ("", None, before):
                yield rows
                rows = []
            before = before if row[sentence] in ("", None) else row[sentence]
            rows.append((location, tokens, tags))
        if rows:
            yield rows

    def parse(self, location: SourceLine, rows: list[_Tokens]) -> RawText:
        """Returns a sentence; raises an `UnusableTextError` if it has other values."""
        _, tokens, tags = rows[0]
        if isinstance(tokens, list):
            tags = tags if self._is_labeled else ["O"] * len(tokens)
            if not isinstance(tags, list) or len(tokens) != len(tags):
                raise UnusableTextError(location, "each token needs a tag; the tags are ...", tags)
            rows = [(location, *pair) for pair in zip(tokens, tags, strict=True)]
        made = list[TaggedToken]()
        for where, token, tag in rows:
            if not isinstance(token, str) or not token.strip():
                raise UnusableTextError(where, "a token must be a text, not ...", token)
            if type(tag) is int and not 0 <= tag < len(self._names):
                raise where.error(
                    f"the tag {tag} is a number; write its name instead, as `datasets` has it in "
                    'dataset.features["ner_tags"].feature.names'
                )
            made.append((where, token, self._names[tag] if type(tag) is int else str(tag)))
        return self.tagged(made)


def _list_in(value: Any) -> Any:
    """Returns the list that a cell has as JSON or Python writes it, or the value itself."""
    if isinstance(value, str) and value[:1] == "[":
        with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return ast.literal_eval(value)
    return value


class WebAnnoTexts(TaggedTexts):
    """Sentences of WebAnno and INCEpTION, with a token, its offsets and its layers in each line."""

    form = WEBANNO.name

    def __init__(
        self, path: str, is_labeled: bool, token_column: int | None, tag_column: int | None
    ):
        """Finds the column of the tags; raises a `UserError` if several may have them."""
        super().__init__(is_labeled)
        self._path, layers = path, dict[int, str]()
        number = 4
        for _, line in itertools.takewhile(
            lambda row: row[1][:3] in ("#FO", "#T_"), read_lines(path)
        ):
            layer, *features = line.partition("=")[2].split("|")
            for feature in (features or [""]) if line[:3] == "#T_" else ():
                if line.startswith("#T_SP"):
                    layers[number] = f"{layer.rpartition('.')[2]}.{feature}"
                number += 1
        usual = [one for one, name in layers.items() if name == "NamedEntity.value"]
        self._column, *others = [tag_column] if tag_column else usual or [*layers] or [4]
        if is_labeled and (others or not 4 <= self._column < number):
            known = ", ".join(f"{one} ({name})" for one, name in layers.items())
            raise UserError(f"{path}: pass the column of the labels as --tag_column: {known}")

    def __iter__(self) -> Iterator[tuple[SourceLine, list[tuple[SourceLine, str]]]]:
        rows = (row for row in read_lines(self._path) if row[1][:1] != "#")
        for is_sentence, group in itertools.groupby(rows, lambda row: bool(row[1])):
            if is_sentence:
                block = list(group)
                yield block[0][0], block

    def parse(self, _: SourceLine, block: list[tuple[SourceLine, str]]) -> RawText:
        """Returns a sentence; raises an `UnusableTextError` for annotations that are no tags."""
        tokens, gaps, before, last = list[TaggedToken](), list[str](), None, None
        for location, line in block:
            try:
                number, offsets, token, *cells = line.split("\t")
                start, end = map(int, offsets.split("-"))
                cell = cells[self._column - 4] if self._is_labeled else "_"
            except (ValueError, IndexError):
                reason = "a number, offsets, a token and layers are needed, not ..."
                raise UnusableTextError(location, reason, line) from None
            found = _CELL.fullmatch(cell)
            if cell != "_" and ("." in number or not found or found[1] == "*"):
                raise UnusableTextError(location, "... is not one label of a whole token", cell)
            if "." in number:
                continue
            label, same = found.groups() if found else ("", None)
            tag = f"{'I' if same and same == last else 'B'}-{_plain(label)}"
            tokens.append((location, _plain(token), "O" if cell == "_" else tag))
            gaps.append(" " * (start - (start if before is None else before)))
            before, last = end, same
        return self.tagged(tokens, gaps)


def _plain(text: str) -> str:
    """Returns a text of WebAnno without its escapes."""
    return re.sub(r"\\(.)", r"\1", text)


class StandoffTexts:
    """Documents of Brat: a .txt file has the text, and the .ann file beside it the entities."""

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
            # An entity that goes on in another line has parts, too.
            gaps = [text[slice(*gap)] for gap in zip(edges[1::2], edges[2::2], strict=False)]
            if not entity or any(map(str.strip, gaps)):
                raise UnusableTextError(where, "the entity ... has gaps, or no offsets", line)
            spans.append(RawSpan(where, edges[0], edges[-1], entity[1], entity[3], line))
        return RawText(text, words_in(text), spans)
