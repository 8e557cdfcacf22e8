"""Reading of JSON documents that are too large for the memory, one value at a time."""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Iterator
from typing import Any

# Bytes to read at a time, at least.
CHUNK = 1 << 16
_SPACES = re.compile(r"[ \t\n\r]*")
_decode = json.JSONDecoder().raw_decode
# The characters after a complete value; before another one, a number may continue.
_AFTER_VALUE = frozenset(",:]} \t\n\r")


class JsonReader:
    """A reader of a JSON document, from its beginning to its end.

    It holds only a part of the text. All methods raise a `ValueError` if the document is not JSON,
    does not have what they read, or has a value that is nested too deeply.
    """

    def __init__(self, descriptor: int):
        """Begins to read an open file, whose position does not change."""
        self._descriptor, self._offset = descriptor, 0
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at, self._ended = "", 0, False

    def value(self) -> Any:
        """Reads any value, as a whole."""
        self._peek()
        while True:
            try:
                value, end = _decode(self._text, self._at)
            except json.JSONDecodeError:
                if not self._grow():
                    raise
                continue
            except RecursionError as e:
                raise ValueError("a value is nested too deeply") from e
            if self._text[end : end + 1] in _AFTER_VALUE or not self._grow():
                self._at = end
                return value

    def begins(self, character: str) -> bool:
        """Returns whether the next value begins with a character."""
        return self._peek() == character

    def members(self) -> Iterator[str]:
        """Yields the keys of an object; the caller reads the value of each."""
        keys = set[str]()
        for _ in self.items("{}"):
            if not self.begins('"'):
                raise ValueError("a key is not a text")
            key = self.value()
            if key in keys:
                raise ValueError(f"the key {key} occurs twice")
            keys.add(key)
            self._expect(":")
            yield key

    def items(self, brackets: str = "[]") -> Iterator[None]:
        """Yields None for each item of an array; the caller reads its value."""
        self._expect(brackets[0])
        if self._take(brackets[1]):
            return
        while True:
            yield
            if self._take(brackets[1]):
                return
            self._expect(",")

    def end(self) -> None:
        """Reads the end of the document."""
        self._expect("")

    def _expect(self, character: str) -> None:
        if not self._take(character):
            raise ValueError(f"{self._peek()!r} instead of {character!r}")

    def _take(self, character: str) -> bool:
        """Reads a character if it is the next one, and returns whether it is."""
        is_next = self.begins(character)
        self._at += is_next
        return is_next

    def _peek(self) -> str:
        """Returns the next character that is not white space; "" at the end."""
        while True:
            self._at = _SPACES.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text) or not self._grow():
                return self._text[self._at : self._at + 1]

    def _grow(self) -> bool:
        """Reads more text; returns False at the end of the file."""
        if self._ended:
            return False
        # Twice as much each time, so that a long value is not decoded too often in vain.
        size = max(CHUNK, len(self._text) - self._at)
        content = os.pread(self._descriptor, size, self._offset)
        if not content:
            self._ended = True
            self._decoder.decode(b"", final=True)
            return False
        self._offset += len(content)
        self._text, self._at = self._text[self._at :] + self._decoder.decode(content), 0
        return True
