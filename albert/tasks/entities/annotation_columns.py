"""Files of tokens with tags: columns as in CoNLL, tables of tokens, and TSV of WebAnno."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from albert.core.errors import UserError
from albert.core.files import read_json
from albert.core.log import LOG
from albert.core.text import python_literal
from albert.tables.kinds import token_columns
from albert.tables.tables import SourceLine, columns, find_table, read_lines
from albert.tasks.entities.annotated_files import AnnotatedFile, RawSpan, RawText, UnusableTextError
from albert.tasks.entities.annotations import AS_BIOES, spans_of_tags
from albert.tasks.entities.settings import FormatSettings

# Tags of BIO and BIOES, and those of BILOU (U, L) and BMES (M), which need a label.
_TAG = re.compile(r"O|[BIES](-\S+)?|[ULM]-\S+")
# The words of a range, and words that are not in the text, as CoNLL-U numbers them.
_RANGE = re.compile(r"\d+[-.]\d+")
# The tag in the last column of CoNLL-U, whose members are separated by "|".
_MEMBER = re.compile(
    r"(?:^|.*\|)(?:tag|ner|ne|name|entity)=(O|[BIESULM]-[^\s|]+)(?:\||$)", re.IGNORECASE
)

# A cell of WebAnno: a label, and the number of an annotation that several tokens have.
_CELL = re.compile(r"((?:\\.|[^\\|*\[])+)(?:\[(\d+)\])?")
_IOB1 = "entities that begin without B- or S-, as in IOB1"

_Line = tuple[SourceLine, list[str]]


class TaggedToken(NamedTuple):
    """A token as a file has it, its tag, and what is between it and the token before it."""

    location: SourceLine
    token: Any
    tag: Any
    gap: str = " "


_Sentences = Iterator[tuple[SourceLine, list[TaggedToken]]]


class TaggedFile(AnnotatedFile):
    """A file of tokens with tags."""

    _where = "the tag"

    def parse(self, _: SourceLine, tokens: Sequence[Any]) -> RawText:
        """Returns the text of tokens; raises an `UnusableTextError` for other tags or tokens."""
        words, tags, text = list[tuple[int, int]](), list[str](), ""
        for location, token, tag, gap in tokens:
            if not isinstance(token, str) or not token.strip(" "):
                raise UnusableTextError(location, "a token must be a text, not ...", token)
            if self.is_labeled and not _is_tag(tag):
                reason = f"{self._where} must be O, B-NAME or similar, not ..."
                raise UnusableTextError(location, reason, tag)
            tags.append(tag[:1].translate(AS_BIOES) + tag[1:] if self.is_labeled else "O")
            text += gap if words else ""
            words.append((len(text), len(text) + len(token)))
            text += token
        spans = list[RawSpan]()
        for first, span in spans_of_tags(text, words, tags):
            where = tokens[first].location
            spans.append(RawSpan(where, span.start, span.end, span.label, None, span.text))
            if tags[first][0] not in "BS":
                self.notes[_IOB1] += 1
        return RawText(text, words, spans)


class ColumnFile(TaggedFile):
    """A file of sentences, whose lines have a token in one column and a tag in another.

    By default the token is in the first column and the tag in the last one. If the first column
    numbers the tokens, they are in the second one.
    """

    _where = "the last column"

    def __init__(self, path: str, is_labeled: bool, settings: FormatSettings):
        """Finds the columns; raises a `UserError` if the file cannot be read, or has others."""
        super().__init__(path, is_labeled, settings)
        token_column, tag_column = settings.token_column, settings.tag_column
        tag_column = tag_column if is_labeled else None
        blocks = list(_blocks(path))
        lines = [line for block in blocks for line in block]
        _take_members(lines)
        first = next((line for line in lines if line[1][0][:1] != "#"), lines[0] if lines else None)
        location, columns = first or (SourceLine(path, 1), [""])
        self._width, self._tag = len(columns), (tag_column or 0) - 1
        if max(token_column or 0, tag_column or 0) > self._width:
            raise location.error(f"there are only {self._width} columns")
        self._has_tags = self._width > 1 and _is_tag(columns[self._tag])
        blocks = [list(itertools.dropwhile(self._is_comment, block)) for block in blocks]
        self._blocks = list(filter(None, blocks))
        self._is_numbered = token_column is None and self._counts()
        self._token = (token_column or 1 + self._is_numbered) - 1
        # Lines of plain text have several columns, too.
        if self._is_numbered or (self._width > 1 and not (is_labeled or self._has_tags)):
            LOG.info("%s: the tokens are in column %d of %d", path, self._token + 1, self._width)
        if self._is_numbered:
            rows = ([one for one in b if not _RANGE.fullmatch(one[1][0])] for b in self._blocks)
            self._blocks = list(filter(None, rows))
        if is_labeled and tag_column is None and self._is_nested():
            self._tag = -2
            LOG.info("%s: the tags are in column %d of %d", path, self._width - 1, self._width)

    def __iter__(self) -> Iterator[tuple[SourceLine, Sequence[_Line]]]:
        for block in self._blocks:
            yield block[0][0], block

    def parse(self, where: SourceLine, block: Sequence[_Line]) -> RawText:
        """Returns a sentence; raises an `UnusableTextError` if a line has other columns."""
        tokens = list[TaggedToken]()
        if self._is_numbered:
            numbers = [cells[0] for _, cells in block]
            if numbers != [str(n + (numbers[0] == "1")) for n in range(len(numbers))]:
                reason = "the first column must count the tokens, not ..."
                raise UnusableTextError(block[0][0], reason, " ".join(numbers))
        for location, cells in block:
            if len(cells) != self._width or not cells[self._token].strip(" "):
                reason = f"{self._width} columns are needed, as in the first line, not ..."
                raise UnusableTextError(location, reason, " ".join(cells))
            tag = cells[self._tag] if self._width > 1 else ""
            tokens.append(TaggedToken(location, cells[self._token], tag))
        return super().parse(where, tokens)

    def _is_comment(self, line: _Line) -> bool:
        """Returns whether a line before a sentence is a comment and not a token "#"."""
        columns = line[1]
        is_row = len(columns) == self._width and (not self._has_tags or _is_tag(columns[self._tag]))
        return columns[0].startswith("#") and not is_row

    def _counts(self) -> bool:
        """Returns whether the first of several columns has numbers, as most tokens have not."""
        if self._width < 2 + (self.is_labeled or self._has_tags):
            return False
        first = [columns[0] for block in self._blocks for _, columns in block]
        is_number = [bool(re.fullmatch(r"\d+([-.]\d+)?", token)) for token in first]
        return 2 * sum(is_number) > len(is_number)

    def _is_nested(self) -> bool:
        """Returns whether the last column has tags of inner entities, as in GermEval 2014."""
        if not (self._is_numbered and self._width == 4):
            return False
        rows = [columns[2:] for block in self._blocks for _, columns in block]
        return 2 * sum(all(map(_is_tag, row)) for row in rows) > len(rows)


def _is_tag(text: Any) -> bool:
    return isinstance(text, str) and bool(_TAG.fullmatch(text)) and text.isprintable()


def _take_members(lines: Sequence[_Line]) -> None:
    """Replaces the members in the last column of CoNLL-U by the tag among them, if any has one."""
    members = [(cells, _MEMBER.match(cells[-1])) for _, cells in lines if len(cells) == 10]
    for cells, tag in members if any(tag for _, tag in members) else ():
        cells[-1] = tag[1] if tag else "O"


def _blocks(path: str) -> Iterator[list[_Line]]:
    """Yields lines up to an empty or a -DOCSTART- line, split at tabs if any, else at spaces."""

    def is_in_block(row: tuple[SourceLine, str]) -> bool:
        return bool(row[1].strip()) and not row[1].startswith("-DOCSTART-")

    for is_block, rows in itertools.groupby(read_lines(path), is_in_block):
        if is_block:
            yield [(location, _cells(location, line)) for location, line in rows]


def _cells(location: SourceLine, line: str) -> list[str]:
    if "\r" in line:
        raise location.error("a carriage return inside of a line; end lines with LF or CRLF")
    return line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))


class TokenFile(TaggedFile):
    """A table of sentences: a row has a list of tokens and one of tags, or a token and its tag."""

    def __iter__(self) -> _Sentences:
        tokens, before = list[TaggedToken](), None
        for location, row in find_table(self.path).rows():
            sentence, token, tag = token_columns(row)
            if not token or (self.is_labeled and not tag):
                raise location.error(f"tokens or ner_tags are missing; it has {columns(row)}")
            tags = _list_in(row.get(tag)) if self.is_labeled else None
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
            features = read_json(self.path, "table")["features"]
            types = {one["name"]: one["type"] for one in features}
            return [*types[token_columns(types)[2]]["feature"]["names"]]
        return ()


def _list_in(value: Any) -> Any:
    """Returns the list that a cell has as JSON or Python writes it, or the value itself."""
    is_text = isinstance(value, str) and value[:1] == "["
    return python_literal(value, value) if is_text else value


class WebAnnoFile(TaggedFile):
    """A file of WebAnno and INCEpTION, with a token, its offsets and its layers in each line."""

    def __init__(self, path: str, is_labeled: bool, settings: FormatSettings):
        """Finds the column of the tags; raises a `UserError` if several may have them."""
        super().__init__(path, is_labeled, settings)
        layers, tag_column = dict[int, str](), settings.tag_column
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
        for location, line in [*read_lines(self.path), (SourceLine(self.path, 0), "")]:
            if not line and tokens:
                yield tokens[0].location, tokens
                tokens, same = [], None
            if not line or line[0] == "#":
                continue
            try:
                number, offsets, token, *cells = line.split("\t")
                start, end = map(int, offsets.split("-"))
                cell = cells[self._column - 4] if self.is_labeled else "_"
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
