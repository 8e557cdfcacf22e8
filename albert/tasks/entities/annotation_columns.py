"""Annotated texts in columns, as in CoNLL: a token and its tag in each line, sentences apart."""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from albert.core.log import LOG
from albert.tables.tables import SourceLine, read_lines
from albert.tasks.entities.annotations import (
    AS_BIOES,
    RawSpan,
    RawText,
    UnusableTextError,
    spans_of_tags,
)

# Tags of BIO and BIOES, and those of BILOU (U, L) and BMES (M), which need a label.
_TAG = re.compile(r"O|[BIES](-\S+)?|[ULM]-\S+")
# The words of a range, and words that are not in the text, as CoNLL-U numbers them.
_RANGE = re.compile(r"\d+[-.]\d+")
# The tag in the last column of CoNLL-U, whose members are separated by "|".
_MEMBER = re.compile(
    r"(?:^|.*\|)(?:tag|ner|ne|name|entity)=(O|[BIESULM]-[^\s|]+)(?:\||$)", re.IGNORECASE
)

_Line = tuple[SourceLine, list[str]]


class TaggedToken(NamedTuple):
    """A token as a file has it, its tag, and what is between it and the token before it."""

    location: SourceLine
    token: Any
    tag: Any
    gap: str = " "


class TaggedTexts:
    """Texts of tokens with tags, in a file whose form is `form`.

    Attributes:
      ignored: how much was ignored, by what it is.
      unusual: where spans begin that are unusual, by what is.
    """

    form, _where = "columns", "the tag"

    def __init__(self, is_labeled: bool):
        self._is_labeled = is_labeled
        self._odd = list[SourceLine]()
        self.ignored = collections.Counter[str]()
        self.unusual = {"begin without B- or S-, as in IOB1": self._odd}

    def parse(self, _: SourceLine, tokens: Sequence[Any]) -> RawText:
        """Returns the text of tokens; raises an `UnusableTextError` for other tags or tokens."""
        words, tags, text = list[tuple[int, int]](), list[str](), ""
        for location, token, tag, gap in tokens:
            if not isinstance(token, str) or not token.strip(" "):
                raise UnusableTextError(location, "a token must be a text, not ...", token)
            if self._is_labeled and not _is_tag(tag):
                reason = f"{self._where} must be O, B-NAME or similar, not ..."
                raise UnusableTextError(location, reason, tag)
            tags.append(tag[:1].translate(AS_BIOES) + tag[1:] if self._is_labeled else "O")
            text += gap if words else ""
            words.append((len(text), len(text) + len(token)))
            text += token
        spans = list[RawSpan]()
        for first, span in spans_of_tags(text, words, tags):
            where = tokens[first].location
            spans.append(RawSpan(where, span.start, span.end, span.label, None, span.text))
            self._odd += [where] * (tags[first][0] not in "BS")
        return RawText(text, words, spans)


class ColumnTexts(TaggedTexts):
    """The sentences of a file, whose lines have a token in one column and a tag in another.

    By default the token is in the first column and the tag in the last one. If the first column
    numbers the tokens, they are in the second one.
    """

    _where = "the last column"

    def __init__(
        self, path: str, is_labeled: bool, token_column: int | None, tag_column: int | None
    ):
        """Finds the columns; those that are given count from 1.

        Raises a `UserError` if the file cannot be read, or has other columns.
        """
        super().__init__(is_labeled)
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
            numbers = [columns[0] for _, columns in block]
            if numbers != [str(n + (numbers[0] == "1")) for n in range(len(numbers))]:
                reason = "the first column must count the tokens, not ..."
                raise UnusableTextError(block[0][0], reason, " ".join(numbers))
        for location, columns in block:
            if len(columns) != self._width or not columns[self._token].strip(" "):
                reason = f"{self._width} columns are needed, as in the first line, not ..."
                raise UnusableTextError(location, reason, " ".join(columns))
            tag = columns[self._tag] if self._width > 1 else ""
            tokens.append(TaggedToken(location, columns[self._token], tag))
        return super().parse(where, tokens)

    def _is_comment(self, line: _Line) -> bool:
        """Returns whether a line before a sentence is a comment and not a token "#"."""
        columns = line[1]
        is_row = len(columns) == self._width and (not self._has_tags or _is_tag(columns[self._tag]))
        return columns[0].startswith("#") and not is_row

    def _counts(self) -> bool:
        """Returns whether the first of several columns has numbers, as most tokens have not."""
        if self._width < 2 + (self._is_labeled or self._has_tags):
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
    members = [(columns, _MEMBER.match(columns[-1])) for _, columns in lines if len(columns) == 10]
    for columns, tag in members if any(tag for _, tag in members) else ():
        columns[-1] = tag[1] if tag else "O"


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
