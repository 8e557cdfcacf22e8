"""MediaWiki's XML dumps, read as a stream.

https://www.mediawiki.org/wiki/Help:Export describes the format. A dump holds `<siteinfo>` with the
names of the namespaces, and then `<page>` elements with `<ns>`, perhaps `<redirect>`, and
revisions with `<text>`.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import BinaryIO
from xml.parsers import expat

from albert.core.errors import UserError

# MediaWiki refuses pages of more than 2 MiB ($wgMaxArticleSize).
LONGEST_PAGE = 2 << 20
_CHUNK = 1 << 20
# The namespaces of files and of categories; links to their pages are not part of a page's text.
_HIDDEN_NAMESPACES = ("6", "14")
_COLLECTED = frozenset(("ns", "text", "namespace"))


class DumpReader:
    """A reader of a dump; `hidden` are its namespaces, in lower case, whose links show no text."""

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
        parser.buffer_text, parser.buffer_size = True, _CHUNK
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._refuse

    def texts(self, stream: BinaryIO) -> Iterator[str]:
        """Yields the wikitext of articles; raises a `UserError` for damage or another format."""
        try:
            while chunk := stream.read1(_CHUNK):  # type: ignore[attr-defined]
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
