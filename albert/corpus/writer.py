"""Output files of bounded size."""

from __future__ import annotations

import os
from typing import BinaryIO


class PartWriter:
    """A context manager that writes documents to numbered files, such as train-00000.txt."""

    def __init__(self, folder: str, prefix: str, file_bytes: int):
        """Takes the folder, the beginning of the names, and the size at which a file ends."""
        self._folder, self._prefix, self._file_bytes = folder, prefix, file_bytes
        self._file: BinaryIO | None = None
        self._size = 0
        self.names: list[str] = []

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, *_) -> None:
        if self._file:
            self._file.close()

    def write(self, document: bytes) -> None:
        """Writes a document, and a blank line between it and the one before."""
        if self._file and self._size + 1 + len(document) > self._file_bytes:
            self._file.close()
            self._file = None
        if self._file is None:
            self.names.append(f"{self._prefix}-{len(self.names):05d}.txt")
            path = os.path.join(self._folder, self.names[-1])
            self._file, self._size = open(path, "wb"), 0  # noqa: SIM115
        else:
            document = b"\n" + document
        self._file.write(document)
        self._size += len(document)
