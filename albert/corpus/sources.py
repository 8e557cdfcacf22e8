"""Input files of text: finding them, and reading them decompressed.

The name of a file says what it holds (such as `.txt`, `.jsonl` or `.parquet`) and how it is
compressed (`.bz2`, `.gz`, `.zst`).
"""

from __future__ import annotations

import bz2
import contextlib
import enum
import glob
import gzip
import os
import re
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast

from albert.core.errors import FlagError, UserError
from albert.core.files import check_readable


class Kind(enum.Enum):
    """The kinds of files, each with the pattern of its names."""

    TEXT = r"\.txt"
    JSON_LINES = r"\.(?:jsonl|ndjson)"
    PARQUET = r"\.parquet"
    # The output of WikiExtractor, as <doc> elements or JSON Lines, has no suffix.
    EXTRACTED = r"^wiki_\d+"


_END = r"(?:\.(?:bz2|gz|zst))?$"
_NAME = re.compile(rf"(?:{'|'.join(f'(?P<{kind.name}>{kind.value})' for kind in Kind)}){_END}")
_SUFFIXES = ".txt, .jsonl or .ndjson, also followed by .bz2, .gz or .zst, or in .parquet"


class Source(NamedTuple):
    """An argument of `--input`: the path of a file or folder, and the files to read, in order."""

    name: str
    paths: list[str]

    def described(self) -> dict:
        """Returns values that change when a file is added, removed or changed."""
        states = [os.stat(path) for path in self.paths]
        return {
            "name": self.name,
            "files": len(states),
            "bytes": sum(state.st_size for state in states),
            "changed_ns": max(state.st_mtime_ns for state in states),
        }


def kind_of(path: str) -> Kind | None:
    """Returns the kind of a file by its name; None for any other name."""
    match = _NAME.search(os.path.basename(path).lower())
    return Kind[cast(str, match.lastgroup)] if match else None


def find_sources(patterns: str, output_dir: str) -> list[Source]:
    """Returns the files and folders that match comma-separated names or globs, in order.

    Of a folder, hidden files and files with other suffixes are skipped. Raises a `FlagError` if
    there is no name, or a folder contains `output_dir`, and a `UserError` if a name or glob matches
    nothing, or a file cannot be used.
    """
    sources = []
    for pattern in filter(None, patterns.split(",")):
        paths = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern))
        if not paths:
            raise UserError(f"--input: {pattern} matches no file")
        sources += [_source(path, output_dir) for path in paths]
    if not sources:
        raise FlagError(f"--input={patterns} names no file")
    return sources


def _source(path: str, output_dir: str) -> Source:
    if not os.path.isdir(path):
        check_readable(path, "--input")
        if not kind_of(path):
            hint = "; extract the text of a dump with WikiExtractor" if ".xml" in path else ""
            raise UserError(f"--input: the name of {path} does not end in {_SUFFIXES}{hint}")
        return Source(path, [path])
    whole, output = os.path.realpath(path), os.path.realpath(output_dir)
    if os.path.commonpath([whole, output]) == whole:
        raise FlagError(f"--output_dir {output_dir} is inside the input {path}; give another")
    files = [one for one in _files_in(path) if kind_of(one)]
    if not files:
        raise UserError(f"--input: {path} contains no file that ends in {_SUFFIXES}")
    for file in files:
        check_readable(file, "--input")
    return Source(path, files)


def _files_in(folder: str) -> Iterator[str]:
    """Yields the files of a folder and its subfolders in order, except hidden ones."""

    def refuse(error: OSError) -> None:
        raise UserError(f"--input {error.filename} cannot be read: {error.strerror}") from error

    for directory, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (os.path.join(directory, name) for name in sorted(names) if name[0] != ".")


@contextlib.contextmanager
def opened(path: str) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Opens a file for reading; yields it, and a stream of its decompressed content.

    Several streams or frames in a row are one. Raises a `UserError` if, during the block, the file
    cannot be read, or is damaged or incomplete.
    """
    errors: list[type[Exception]] = [EOFError, zlib.error, OSError]
    try:
        with open(path, "rb", 1 << 20) as file:
            suffix = os.path.splitext(path)[1].lower()
            if suffix == ".bz2":
                stream: BinaryIO = cast(BinaryIO, bz2.BZ2File(file))
            elif suffix == ".gz":
                stream = cast(BinaryIO, gzip.GzipFile(fileobj=file))
            elif suffix == ".zst":
                from backports import zstd

                errors.append(zstd.ZstdError)
                stream = cast(BinaryIO, zstd.ZstdFile(file))
            else:
                stream = file
            with stream:
                yield file, stream
    except tuple(errors) as e:
        if isinstance(e, OSError) and e.errno is not None:
            raise UserError(f"{path} cannot be read: {e.strerror}") from e
        raise UserError(f"{path} is damaged or incomplete: {e}") from e
