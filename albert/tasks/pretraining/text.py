"""Text files, split into blocks of whole documents that can be read independently.

Each line is a sentence. A blank line or the end of a file ends a document.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert.core.errors import FlagError, UserError, reporting
from albert.tokenization import FullTokenizer

# A document that continues for more than this beyond a block is split at the end of a line.
LONGEST_REST = 1 << 20
_END_OF_DOCUMENT = re.compile(rb"\n[ \t\r]*\n")
_HIDDEN_OR_LOCK = re.compile(r"(^|/)\.[^/]*$|\.lock$")


class Span(NamedTuple):
    """The bytes of a file from `start` up to `end`, exclusive."""

    path: str
    start: int
    end: int


# The unit of text that is read and processed at a time.
Block = tuple[Span, ...]


def matching_files(patterns: str, flag: str) -> list[str]:
    """Returns the files that match comma-separated names or globs, in order.

    A glob skips hidden files, and the locks and headers that programs put next to their files.
    Raises a `FlagError` if there is no name, and a `UserError` if a name or glob matches no file,
    or matches a folder.
    """
    files = []
    for pattern in filter(None, patterns.split(",")):
        every = paths = sorted(tf.gfile.Glob(pattern))
        if every != [pattern]:
            paths = [path for path in every if _is_input(path)]
        if not paths:
            but = " except hidden files, locks and headers" if every else ""
            raise UserError(f"--{flag}: {pattern} matches no file{but}")
        folder = next((path for path in paths if os.path.isdir(path)), None)
        if folder:
            raise UserError(f"--{flag}: {folder} is a folder; pass {folder}/* for its files")
        files += paths
    if not files:
        raise FlagError(f"--{flag}={patterns} names no file")
    return files


def _is_input(path: str) -> bool:
    is_header = path.endswith(".json") and os.path.exists(path.removesuffix(".json"))
    return not (is_header or _HIDDEN_OR_LOCK.search(path))


def plan_blocks(paths: Sequence[str], block_bytes: int) -> list[Block]:
    """Splits files at ends of documents into blocks; all but the last have `block_bytes` or more.

    Raises:
      UserError: a file is empty or cannot be read, or a line is longer than `LONGEST_REST`.
    """
    blocks, spans, used = [], [], 0
    for path in paths:
        with reporting(f"{path} cannot be read"), open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                raise UserError(f"{path} is empty; remove it from the input")
            start = 0
            while start < size:
                end = _end_of_document(file, start + block_bytes - used, size)
                spans.append(Span(path, start, end))
                used += end - start
                start = end
                if used >= block_bytes:
                    blocks.append(tuple(spans))
                    spans, used = [], 0
    return [*blocks, tuple(spans)] if spans else blocks


def _end_of_document(file: BinaryIO, position: int, size: int) -> int:
    """Returns the end of the document at byte `position`, or of the line if that is too far."""
    if position >= size:
        return size
    file.seek(position)
    window = file.read(LONGEST_REST)
    if match := _END_OF_DOCUMENT.search(window):
        return position + match.end()
    if position + len(window) >= size:
        return size
    line_end = window.find(b"\n")
    if line_end < 0:
        raise UserError(
            f"{file.name}, line {_line_number(file.name, position)}: longer than {LONGEST_REST} "
            "bytes; put one sentence on each line"
        )
    return position + line_end + 1


def read_lines(span: Span) -> list[str]:
    """Returns the lines of a span, without line ends; raises a `UserError` if it is not UTF-8."""
    with open(span.path, "rb") as file:
        file.seek(span.start)
        content = file.read(span.end - span.start)
    try:
        # A byte order mark is not part of the text.
        text = content.decode("utf-8-sig" if not span.start else "utf-8")
    except UnicodeDecodeError as e:
        line = _line_number(span.path, span.start + e.start)
        raise UserError(
            f"{span.path}, line {line}: byte {e.object[e.start]:#04x} at offset "
            f"{span.start + e.start} is not UTF-8; convert the file"
        ) from e
    return text.split("\n")


def _line_number(path: str, position: int) -> int:
    """Returns the number, from 1, of the line that contains byte `position`."""
    number = 1
    with open(path, "rb") as file:
        while position > 0 and (content := file.read(min(position, 1 << 20))):
            number += content.count(b"\n")
            position -= len(content)
    return number


class Documents(NamedTuple):
    """Documents, which consist of sentences of tokens.

    Attributes:
      ids: int32 [T], the concatenated tokens of all sentences.
      bounds: sentence i is `ids[bounds[i] : bounds[i + 1]]`; no sentence is empty.
      ranges: numbers of each document's first sentence and of the one after its last.
    """

    ids: np.ndarray
    bounds: list[int]
    ranges: list[tuple[int, int]]


def word_beginnings(tokenizer: FullTokenizer) -> np.ndarray:
    """Returns for each token whether it begins a word, bool [size]."""
    pieces = tokenizer.convert_ids_to_tokens(range(tokenizer.size))
    return np.array(list(map(tokenizer.begins_word, pieces)))


def encoded(block: Block, tokenizer: FullTokenizer) -> Documents:
    """Returns the documents of a block, without sentences and documents that have no tokens."""
    sentences, lengths = list[list[int]](), list[int]()
    for span in block:
        texts = list(map(tokenizer.normalize, read_lines(span)))
        ids_of_lines = iter(tokenizer.encode(filter(None, texts), normalized=True))
        for is_text, group in itertools.groupby(texts, bool):
            lines = itertools.islice(ids_of_lines, len(list(group)) if is_text else 0)
            if document := list(filter(None, lines)):
                sentences += document
                lengths.append(len(document))
    ends = list(itertools.accumulate(lengths))
    bounds = list(itertools.accumulate(map(len, sentences), initial=0))
    ids = np.fromiter(itertools.chain.from_iterable(sentences), np.int32, bounds[-1])
    return Documents(ids, bounds, list(itertools.pairwise([0, *ends])))
