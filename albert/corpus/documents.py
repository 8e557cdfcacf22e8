"""Documents of text files, JSON Lines and dumps, with what is wrong with these files."""

from __future__ import annotations

import codecs
import collections
import dataclasses
import html
import io
import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple
from xml.parsers import expat

from albert.core.errors import UserError
from albert.core.files import parse_json
from albert.corpus.sources import Kind, Source, kind_of, opened

# A longer document is cut, so that a file of any size fits into memory. In characters.
LONGEST_DOCUMENT = 8 << 20
# Bytes; a longer line of JSON Lines is not parsed.
_LONGEST_LINE = 64 << 20
_PIECE = 1 << 20
# MediaWiki refuses pages of more than 2 MiB ($wgMaxArticleSize).
LONGEST_PAGE = 2 << 20
# The namespaces of files and of categories; links to their pages are not part of a page's text.
_HIDDEN_NAMESPACES = ("6", "14")
_COLLECTED = frozenset(("ns", "text", "namespace"))
# The begin of an article in the output of WikiExtractor, and tags that it has not removed.
_DOC_MARK = b"<doc id="
_DOC = re.compile(r'<doc id=.*\btitle="(.*)">$')
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")


class Document(NamedTuple):
    """A document of a source, as it was read.

    `hidden` has, for wikitext, the namespaces whose links do not show; it is None for plain text.
    """

    source: int
    text: str
    hidden: frozenset[str] | None = None


class Options(NamedTuple):
    """The options that affect the text: see the flags of `albert pretraining-text`."""

    language: str = "en"
    text_field: str = "text"
    blank_line_ends_document: bool = False
    min_chars: int = 0
    max_chars: int = 0
    min_sentences: int = 2
    deduplicate: bool = True
    dev_fraction: float = 0.0
    file_mb: int = 256


@dataclasses.dataclass
class Tally:
    """Counts of a source's documents by name, and a fault for each file not read as a whole."""

    counts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    faults: list[str] = dataclasses.field(default_factory=list)


def read_documents(
    number: int, source: Source, options: Options, tally: Tally, watch: Callable[[int], object]
) -> Iterator[Document]:
    """Yields the documents of a source; calls `watch` with the number of bytes of each read.

    A file that is damaged ends there: the documents before the damage are yielded, the fault goes
    to the tally, and the next file follows.
    """
    for path in source.paths:
        try:
            with opened(path, watch) as stream:
                if kind_of(path) is Kind.DUMP:
                    dump = DumpReader(path, tally.counts)
                    for text in dump.texts(stream):
                        yield Document(number, text, frozenset(dump.hidden))
                    continue
                for text in _texts(stream, path, options, tally):
                    tally.counts["read"] += 1
                    yield Document(number, text)
        except UserError as e:
            tally.faults.append(str(e))
            if kind_of(path) is Kind.TEXT:
                # The document with the damage.
                tally.counts.update(("read", "unreadable"))


def _texts(stream: BinaryIO, path: str, options: Options, tally: Tally) -> Iterator[str]:
    """Yields the documents of a file without wikitext; its beginning tells WikiExtractor's form."""
    kind, field = kind_of(path), options.text_field
    head = stream.peek(len(_DOC_MARK)).lstrip()  # type: ignore[attr-defined]
    if kind in (Kind.TEXT, Kind.EXTRACTED) and head.startswith(_DOC_MARK):
        return _texts_of_docs(stream, path, tally)
    if kind is Kind.TEXT:
        return _texts_of_file(stream, path, options, tally)
    if kind is Kind.EXTRACTED:
        return _texts_of_lines(
            stream, path, lambda line: _extracted(_field_of(line, field), line.get("title")), tally
        )
    if kind is Kind.SEARCH_INDEX:
        return _texts_of_lines(stream, path, lambda line: _indexed(line, field, tally), tally)
    return _texts_of_lines(stream, path, lambda line: _field_of(line, field), tally)


def _texts_of_docs(stream: BinaryIO, path: str, tally: Tally) -> Iterator[str]:
    """Yields the articles in WikiExtractor's elements, each of which begins with its title."""
    title, lines = None, list[str]()
    for line in _decoded(stream, path):
        if match := _DOC.match(line):
            title, lines = html.unescape(match[1]), []
        elif line.rstrip() == "</doc>":
            yield from _cut(_extracted("".join(lines), title), tally)
            title, lines = None, []
        else:
            lines.append(line)
    if title is not None:
        tally.counts.update(("read", "unreadable"))
        raise UserError(f"{path} is incomplete: its last <doc> has no </doc>")


def _extracted(text: str, title: object) -> str:
    """Returns the paragraphs, which are lines, of an article without its title and tags."""
    lines = _TAG.sub("", html.unescape(text)).strip().split("\n")
    return "\n\n".join(lines[lines[0].strip() == title :])


def _indexed(line: dict[str, Any], field: str, tally: Tally) -> str | None:
    """Returns the text of an article; the lines before articles only have their ids."""
    if "index" in line and field not in line:
        return None
    if line.get("namespace", 0):
        tally.counts.update(("read", "other_namespace"))
        return None
    return _field_of(line, field)


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
            *whole, rest = _cut("".join(parts), tally)
            yield from whole
            parts, size = [rest], len(rest)
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


def _texts_of_lines(
    stream: BinaryIO, path: str, text_of: Callable[[dict[str, Any]], str | None], tally: Tally
) -> Iterator[str]:
    """Yields the texts of JSON Lines; of the lines that are wrong, the first is a fault."""
    number, is_rest, wrong = 0, False, ""
    while line := stream.readline(_LONGEST_LINE):
        number += not is_rest
        is_too_long = not line.endswith(b"\n") and len(line) == _LONGEST_LINE
        is_rest, was_rest = is_too_long, is_rest
        if was_rest or not line.strip():
            continue
        try:
            if is_too_long:
                raise ValueError(f"longer than {_LONGEST_LINE} bytes")
            value = parse_json(line, "the line")
            text = text_of(value if isinstance(value, dict) else {})
        except ValueError as e:
            tally.counts.update(("read", "unreadable"))
            wrong = wrong or f"{path}, line {number}: {e}"
            continue
        if text is not None:
            yield from _cut(text, tally)
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


def _cut(text: str, tally: Tally) -> list[str]:
    """Returns a text in pieces of at most `LONGEST_DOCUMENT`, cut at the end of a line or word."""
    pieces = []
    while len(text) > LONGEST_DOCUMENT:
        start = text[:LONGEST_DOCUMENT]
        ends = (start.rfind(mark) + 1 for mark in ("\n\n", "\n", " "))
        end = next((end for end in ends if end > LONGEST_DOCUMENT // 2), LONGEST_DOCUMENT)
        pieces.append(text[:end])
        text = text[end:]
        tally.counts["cut_documents"] += 1
    return [*pieces, text]


class DumpReader:
    """A reader of a dump of MediaWiki, which https://www.mediawiki.org/wiki/Help:Export describes.

    A dump holds `<siteinfo>` with the names of the namespaces, and then `<page>` elements with
    `<ns>`, perhaps `<redirect>`, and revisions with `<text>`. `hidden` are the namespaces, in lower
    case, whose links show no text.
    """

    def __init__(self, path: str, counts: collections.Counter[str]):
        """Takes the name for messages, and what counts pages by the reason to skip them."""
        self._path, self._counts = path, counts
        self.hidden = {"file", "image", "category"}
        self._pages: list[str] = []
        self._parts: list[str] | None = None
        self._size = 0
        self._root = ""
        self._begin_page()
        self._parser = parser = expat.ParserCreate()
        parser.buffer_text, parser.buffer_size = True, _PIECE
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._refuse

    def texts(self, stream: BinaryIO) -> Iterator[str]:
        """Yields the wikitext of articles; raises a `UserError` for damage or another format."""
        try:
            while chunk := stream.read1(_PIECE):  # type: ignore[attr-defined]
                self._parser.Parse(chunk, False)
                yield from self._finished()
            self._parser.Parse(b"", True)
        except expat.ExpatError as e:
            yield from self._finished()
            raise UserError(f"{self._path} is damaged or incomplete XML: {e}") from e

    def _finished(self) -> list[str]:
        pages, self._pages = self._pages, []
        return pages

    def _begin_page(self) -> None:
        self._namespace, self._text, self._is_redirect, self._is_too_long = "0", "", False, False

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._root:
            self._root = name
            if name != "mediawiki":
                self._refuse()
        if name == "page":
            self._begin_page()
        elif name == "redirect":
            self._is_redirect = True
        elif name in _COLLECTED:
            self._parts, self._size = [], 0
            self._key = attributes.get("key")

    def _characters(self, characters: str) -> None:
        if self._parts is not None and self._size <= LONGEST_PAGE:
            self._parts.append(characters)
            self._size += len(characters)

    def _end(self, name: str) -> None:
        if name in _COLLECTED and self._parts is not None:
            value, self._parts = "".join(self._parts), None
            if name == "ns":
                self._namespace = value
            elif name == "namespace":
                if self._key in _HIDDEN_NAMESPACES:
                    self.hidden.add(value.lower())
            else:
                # Of several revisions, the last one counts.
                self._text, self._is_too_long = value, self._size > LONGEST_PAGE
        elif name == "page":
            self._end_page()

    def _end_page(self) -> None:
        self._counts["read"] += 1
        if self._namespace != "0":
            self._counts["other_namespace"] += 1
        elif self._is_redirect:
            self._counts["redirect"] += 1
        elif self._is_too_long:
            self._counts["unreadable"] += 1
        else:
            self._pages.append(self._text)

    def _refuse(self, *_) -> None:
        raise UserError(f"{self._path} is not a dump of MediaWiki; its root must be <mediawiki>")
