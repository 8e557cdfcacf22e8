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
from typing import BinaryIO, cast

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
_SUFFIXES = (
    ".txt, .jsonl or .ndjson, also followed by .bz2, .gz or .zst, or in .parquet; extract the text "
    "of a dump with WikiExtractor"
)


def kind_of(path: str) -> Kind | None:
    """Returns the kind of a file by its name; None for any other name."""
    match = _NAME.search(os.path.basename(path).lower())
    return Kind[cast(str, match.lastgroup)] if match else None


def find_files(patterns: str, output_dir: str) -> list[str]:
    """Returns the files that match comma-separated names or globs, or are in such folders.

    They are in order. Of a folder, hidden files and files with other suffixes are skipped. Raises a
    `FlagError` if there is no name, or a folder contains `output_dir`, and a `UserError` if a name
    or glob matches nothing, or a file cannot be used.
    """
    files = list[str]()
    for pattern in filter(None, patterns.split(",")):
        paths = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern))
        if not paths:
            raise UserError(f"--input: {pattern} matches no file")
        for path in paths:
            files += _files_in(path, output_dir) if os.path.isdir(path) else [path]
    if not files:
        raise FlagError(f"--input={patterns} names no file")
    for path in files:
        check_readable(path, "--input")
        if not kind_of(path):
            raise UserError(f"--input: the name of {path} does not end in {_SUFFIXES}")
    return files


def _files_in(folder: str, output_dir: str) -> list[str]:
    """Returns the files of a folder and its subfolders in order; see `find_files`."""
    whole, output = os.path.realpath(folder), os.path.realpath(output_dir)
    if os.path.commonpath([whole, output]) == whole:
        raise FlagError(f"--output_dir {output_dir} is inside the input {folder}; give another")

    def refuse(error: OSError) -> None:
        raise UserError(f"--input {error.filename} cannot be read: {error.strerror}") from error

    files = list[str]()
    for directory, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if name[0] != ".")
        visible = (name for name in sorted(names) if name[0] != "." and kind_of(name))
        files += [os.path.join(directory, name) for name in visible]
    if not files:
        raise UserError(f"--input: {folder} contains no file that ends in {_SUFFIXES}")
    return files


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
