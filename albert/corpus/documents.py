"""Documents of text files, JSON Lines and Parquet, with what is wrong with these files."""

from __future__ import annotations

import codecs
import collections
import dataclasses
import html
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

from albert.core.errors import UserError
from albert.core.files import parse_json
from albert.corpus.sources import Kind, kind_of, opened
from albert.tables import parquet

# A longer text becomes several documents, so that a file of any size fits into memory. In
# characters.
LONGEST_DOCUMENT = 8 << 20
_PIECE = 1 << 20
# The begin of an article in the output of WikiExtractor, and tags that it has not removed.
_DOC_MARK = b"<doc id="
_DOC = re.compile(r'<doc id=.*\btitle="(.*)">$')
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")


class Options(NamedTuple):
    """The options that affect the text: see the flags of `albert pretraining-text`."""

    language: str = "en"
    text_field: str = "text"
    blank_line_ends_document: bool = False
    min_chars: int = 0
    dev_fraction: float = 0.0


@dataclasses.dataclass
class Tally:
    """Counts of the documents by name, and a fault for each file not read as a whole."""

    counts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    faults: list[str] = dataclasses.field(default_factory=list)


def read_documents(
    paths: Sequence[str], options: Options, tally: Tally, watch: Callable[[int], object]
) -> Iterator[str]:
    """Yields the documents of files; calls `watch` with the numbers of bytes read.

    A file that is damaged ends there: the documents before the damage are yielded, the fault goes
    to the tally, and the next file follows.
    """
    for path in paths:
        try:
            for text in _texts_of_path(path, options, tally, watch):
                tally.counts["read"] += 1
                yield text
        except UserError as e:
            tally.faults.append(str(e))


def _texts_of_path(
    path: str, options: Options, tally: Tally, watch: Callable[[int], object]
) -> Iterator[str]:
    """Yields the documents of a file; its beginning tells WikiExtractor's form."""
    kind, field = kind_of(path), options.text_field
    if kind is Kind.PARQUET:
        yield from _texts_of_rows(path, field, tally)
        watch(os.path.getsize(path))
        return
    with opened(path) as (file, stream):
        head = stream.peek(len(_DOC_MARK)).lstrip()  # type: ignore[attr-defined]
        if kind in (Kind.TEXT, Kind.EXTRACTED) and head.startswith(_DOC_MARK):
            texts = _texts_of_docs(stream, path)
        elif kind is Kind.TEXT:
            texts = _texts_of_file(stream, path, options, tally)
        else:
            texts = _texts_of_lines(stream, path, field, tally)
        position = 0
        for text in texts:
            yield text
            watch(file.tell() - position)
            position = file.tell()


def _texts_of_rows(path: str, field: str, tally: Tally) -> Iterator[str]:
    """Yields the texts of a Parquet file, such as those of `wikimedia/wikipedia` on the hub."""
    if field not in parquet.read_columns(path):
        raise UserError(f"{path} has no column {field!r}; see --text_field")
    for row in parquet.read_rows(path, columns=[field]):
        try:
            yield _field_of(row, field)
        except ValueError:
            tally.counts.update(("read", "unreadable"))


def _texts_of_docs(stream: BinaryIO, path: str) -> Iterator[str]:
    """Yields the articles in WikiExtractor's elements, each of which begins with its title."""
    title, lines = None, list[str]()
    for line in _decoded(stream, path):
        if match := _DOC.match(line):
            title, lines = html.unescape(match[1]), []
        elif line.rstrip() == "</doc>":
            yield _extracted("".join(lines), title)
            title, lines = None, []
        else:
            lines.append(line)
    if title is not None:
        raise UserError(f"{path} is incomplete: its last <doc> has no </doc>")


def _extracted(text: str, title: object) -> str:
    """Returns the paragraphs, which are lines, of an article without its title and tags."""
    lines = _TAG.sub("", html.unescape(text)).strip().split("\n")
    return "\n\n".join(lines[lines[0].strip() == title :])


def _texts_of_file(stream: BinaryIO, path: str, options: Options, tally: Tally) -> Iterator[str]:
    parts: list[str] = []
    size, begins_line = 0, True
    for piece in _decoded(stream, path):
        is_end = options.blank_line_ends_document and begins_line and piece.isspace()
        begins_line = piece.endswith("\n")
        if is_end:
            if parts:
                yield "".join(parts)
            parts, size = [], 0
            continue
        parts.append(piece)
        size += len(piece)
        if size > LONGEST_DOCUMENT:
            yield "".join(parts)
            parts, size = [], 0
            tally.counts["cut_documents"] += 1
    text = "".join(parts)
    if text.strip():
        yield text


def _decoded(stream: BinaryIO, path: str) -> Iterator[str]:
    """Yields the lines of a text, long ones in pieces, because one may be as long as the file."""
    utf8 = codecs.getincrementaldecoder("utf-8-sig")()
    decoder = io.IncrementalNewlineDecoder(utf8, translate=True)
    number, piece = 1, b""
    try:
        while piece := stream.readline(_PIECE):
            text = decoder.decode(piece)
            if "\0" in text:
                raise UserError(f"{path}, line {number} is not text: it contains a zero byte")
            yield text
            number += piece.endswith(b"\n")
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as e:
        raise UserError(
            f"{path}, line {number} is not UTF-8: {e.reason} {e.object[e.start]:#04x}"
        ) from e


def _texts_of_lines(stream: BinaryIO, path: str, field: str, tally: Tally) -> Iterator[str]:
    """Yields the texts of JSON Lines; of the lines that are wrong, the first is a fault."""
    wrong, is_extracted = "", kind_of(path) is Kind.EXTRACTED
    for number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        try:
            value = parse_json(line, "the line")
            text = _field_of(value if isinstance(value, dict) else {}, field)
            yield _extracted(text, value.get("title")) if is_extracted else text
        except ValueError as e:
            tally.counts.update(("read", "unreadable"))
            wrong = wrong or f"{path}, line {number}: {e}"
    if wrong:
        raise UserError(wrong)


def _field_of(line: dict[str, Any], field: str) -> str:
    """Returns a field of an object in JSON; raises a `ValueError` if it has no such text."""
    text = line.get(field)
    if not isinstance(text, str):
        raise ValueError(f"has no text in a field {field!r}; see --text_field")
    if "\0" in text:
        raise ValueError("not text: it contains a zero byte")
    return text
