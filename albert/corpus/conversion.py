"""Conversion of files to a corpus of documents: read, convert, filter, de-duplicate, write."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import itertools
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO, NamedTuple

from albert.core.errors import FlagError, UserError, optional
from albert.core.files import remove_temporary_files, temporary_folder, write_json
from albert.core.locks import exclusive
from albert.core.log import progress_bar
from albert.corpus.documents import Options, Tally, read_documents
from albert.corpus.sources import Kind, kind_of
from albert.records.process_pool import ordered_map

REPORT = "report.json"
# Characters of text that a worker converts at a time, roughly.
_BATCH = 256 << 10
# A longer sentence is cut. In characters, so at most 16 KiB of UTF-8; a model reads 512 tokens.
LONGEST_SENTENCE = 4096
_CODE = re.compile(r"[a-z]{2,3}(-[a-z]+)*")
_END_OF_PARAGRAPH = re.compile(r"\n\s*\n")
# A single sentence has no order to learn.
_FEWEST_SENTENCES = 2
# What is counted: documents that are read, dropped for a reason, or kept, and the text of the kept.
_COUNTS = (
    *("read", "unreadable", "too_short", "duplicate", "kept", "dev"),
    *("sentences", "characters", "cut_sentences", "cut_documents"),
)


def check_language(language: str) -> None:
    """Raises a `FlagError` if a language is no code: sentencex would split it as English."""
    if not _CODE.fullmatch(language):
        raise FlagError(f"--language {language!r} is not a code in small letters, such as en or de")


class Converted(NamedTuple):
    """A converted document: lines of sentences in UTF-8, with the hash of their content.

    `text` is empty if the document is too short; `counts` has "sentences", "characters" and
    "cut_sentences".
    """

    text: bytes = b""
    content: int = 0
    counts: dict[str, int] = {}


def make_corpus(paths: Sequence[str], output_dir: str, options: Options, workers: int) -> dict:
    """Makes the files of a corpus, and returns the report.

    If the process is killed, `output_dir` does not exist yet, and the next call removes what is
    left and starts again. If a file cannot be read as a whole, the rest is written, and the report
    has a fault. Raises a `UserError` if the folder exists, or no document was kept.
    """
    _check_installed(paths)
    # Unfinished folders are in the parent of the real one.
    output_dir = os.path.realpath(output_dir)
    tally = Tally()
    with exclusive(output_dir):
        remove_temporary_files(output_dir)
        with temporary_folder(output_dir) as folder:
            sizes = _write(folder, paths, options, tally, workers)
            totals = {name: tally.counts[name] for name in _COUNTS}
            if not sizes:
                fault = "".join(f"; {fault}" for fault in tally.faults[:1])
                raise UserError(f"no document to keep ({counted(totals)}){fault}")
            report = {"inputs": list(paths), "options": options._asdict(), "files": sizes}
            report |= {"totals": totals, "faults": tally.faults}
            write_json(os.path.join(folder, REPORT), report)
    return report


def counted(totals: Mapping[str, int]) -> str:
    """Returns the counts that are not 0, human-readable."""
    return ", ".join(f"{count:,} {name}" for name, count in totals.items() if count) or "0 read"


def _check_installed(paths: Sequence[str]) -> None:
    packages = ["sentencex"]
    packages += ["pyarrow"] * any(kind_of(path) is Kind.PARQUET for path in paths)
    packages += ["backports.zstd"] * any(path.lower().endswith(".zst") for path in paths)
    for package in packages:
        with optional(package):
            importlib.import_module(package)


def _write(
    folder: str, paths: Sequence[str], options: Options, tally: Tally, workers: int
) -> dict[str, int]:
    """Writes the files of text, and returns their sizes by name."""
    total, seen, files = sum(map(os.path.getsize, paths)), set[int](), dict[str, BinaryIO]()
    with contextlib.ExitStack() as stack, progress_bar(total, "text", "B") as bar:
        batches = _batches(read_documents(paths, options, tally, bar.update))
        results = ordered_map(lambda batch: [convert(t, options) for t in batch], batches, workers)
        for one in itertools.chain.from_iterable(results):
            if not one.text:
                tally.counts["too_short"] += 1
            elif one.content in seen:
                tally.counts["duplicate"] += 1
            else:
                seen.add(one.content)
                is_dev = one.content < options.dev_fraction * 2**64
                name = "dev.txt" if is_dev else "train.txt"
                if name in files:
                    files[name].write(b"\n")
                else:
                    files[name] = stack.enter_context(open(os.path.join(folder, name), "wb"))
                files[name].write(one.text)
                tally.counts.update({**one.counts, "kept": 1, "dev": int(is_dev)})
        return {name: file.tell() for name, file in files.items()}


def _batches(documents: Iterable[str]) -> Iterator[list[str]]:
    batch, size = [], 0
    for document in documents:
        batch.append(document)
        size += len(document)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def convert(document: str, options: Options) -> Converted:
    """Converts a document to lines of sentences."""
    # JSON can have halves of surrogate pairs, which UTF-8 cannot.
    text = document.encode(errors="replace").decode()
    lines, cut = split_sentences(text, options.language)
    characters = sum(map(len, lines))
    if characters < options.min_chars or len(lines) < _FEWEST_SENTENCES:
        return Converted()
    joined = "\n".join(lines) + "\n"
    counts = {"sentences": len(lines), "characters": characters, "cut_sentences": cut}
    return Converted(joined.encode(), content_hash(joined), counts)


def split_sentences(text: str, language: str) -> tuple[list[str], int]:
    """Returns the sentences of a text, none of them empty, and how many longer ones were cut.

    A blank line ends a sentence; any other white space, such as the end of a line, is a space. No
    character is lost except white space.
    """
    from sentencex import segment

    sentences, cut = [], 0
    for paragraph in _END_OF_PARAGRAPH.split(text):
        # sentencex fails at some kinds of white space, and wants only spaces.
        rest = " ".join(paragraph.split())
        while rest:
            # In windows: the time of sentencex is quadratic for text that has no spaces.
            window = rest[:LONGEST_SENTENCE]
            complete = segment(language, window)
            if len(window) < len(rest):
                if len(complete) > 1:
                    # The last one may continue.
                    complete.pop()
                else:
                    complete = [window[: window.rfind(" ") + 1] or window]
                    cut += 1
            sentences += complete
            rest = rest[sum(map(len, complete)) :]
    stripped = (sentence.strip() for sentence in sentences)
    return [sentence for sentence in stripped if sentence], cut


def content_hash(text: str) -> int:
    """Returns a 64-bit hash of a text, the same for any case, width and white space."""
    normalized = " ".join(unicodedata.normalize("NFKC", text).lower().split())
    digest = hashlib.blake2b(normalized.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
