"""Conversion of sources to files of documents: read, convert, filter, de-duplicate, write."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

from albert.core.errors import UserError, optional
from albert.core.files import remove_temporary_files, temporary_folder, write_json
from albert.core.locks import exclusive
from albert.core.log import progress_bar
from albert.corpus import sentences
from albert.corpus.documents import Document, Options, Tally, read_documents
from albert.corpus.sources import Kind, Source, kind_of
from albert.records.process_pool import ordered_map

REPORT = "report.json"
# Raise this when the same input gives other text.
_VERSION = 2
# Characters of text that a worker converts at a time, roughly.
_BATCH = 256 << 10
_FAULTS_SHOWN = 3
# A single sentence has no order to learn.
_FEWEST_SENTENCES = 2
# The reasons to drop a document, and what is counted of the others.
REASONS = ("unreadable", "too_short", "duplicate")
COUNTS = (
    *("read", *REASONS, "kept", "dev"),
    *("sentences", "characters", "cut_sentences", "cut_documents"),
)


class Converted(NamedTuple):
    """A converted document: lines of sentences in UTF-8, with the hash of their content.

    `text` is empty if the document is too short; `counts` has "sentences", "characters" and
    "cut_sentences".
    """

    source: int
    text: bytes = b""
    content: int = 0
    counts: dict[str, int] = {}


def make_corpus(sources: Sequence[Source], output_dir: str, options: Options, workers: int) -> dict:
    """Makes the files of a corpus, and returns the report.

    If the process is killed, `output_dir` does not exist yet, and the next call removes what is
    left and starts again. If only a part of the input cannot be read, the rest is written; see
    `check_faults`. Raises a `UserError` if the folder exists, or no document was kept.
    """
    _check_installed(sources)
    described = [source.described() for source in sources]
    # Everything that the text depends on.
    made_from = {"version": _VERSION, "options": options._asdict(), "inputs": described}
    # Unfinished folders are in the parent of the real one.
    output_dir = os.path.realpath(output_dir)
    with exclusive(output_dir):
        remove_temporary_files(output_dir)
        with temporary_folder(output_dir) as folder:
            report = _Corpus(sources, options, folder).make(made_from, workers)
            write_json(os.path.join(folder, REPORT), report)
    return report


def check_faults(report: dict, output_dir: str) -> None:
    """Raises a `UserError` if a part of the input could not be read."""
    faults = [fault for source in report["inputs"] for fault in source["faults"]]
    if faults:
        more = f"; and {len(faults) - _FAULTS_SHOWN} more" * (len(faults) > _FAULTS_SHOWN)
        raise UserError(
            f"{'; '.join(faults[:_FAULTS_SHOWN])}{more}. The text of the rest is in {output_dir}; "
            "repair or leave out what is damaged, and write to another folder"
        )


def _check_installed(sources: Sequence[Source]) -> None:
    paths, packages = [path for source in sources for path in source.paths], ["sentencex"]
    packages += ["pyarrow"] * any(kind_of(path) is Kind.PARQUET for path in paths)
    packages += ["backports.zstd"] * any(path.lower().endswith(".zst") for path in paths)
    for package in packages:
        with optional(package):
            importlib.import_module(package)


class _Corpus:
    """A corpus in the making."""

    def __init__(self, sources: Sequence[Source], options: Options, folder: str):
        self._sources, self._options, self._folder = sources, options, folder
        self._tallies = [Tally() for _ in sources]
        self._seen = set[int]()

    def make(self, made_from: dict, workers: int) -> dict:
        """Writes the files, and returns the report."""
        size = sum(described["bytes"] for described in made_from["inputs"])
        files = dict[str, BinaryIO]()
        with contextlib.ExitStack() as stack, progress_bar(size, "text", "B") as bar:
            batches = self._batches(bar.update)
            for results in ordered_map(self._convert, batches, workers):
                for one in results:
                    counts = self._tallies[one.source].counts
                    if not one.text:
                        counts["too_short"] += 1
                    elif one.content in self._seen:
                        counts["duplicate"] += 1
                    else:
                        self._seen.add(one.content)
                        is_dev = one.content < self._options.dev_fraction * 2**64
                        name = "dev.txt" if is_dev else "train.txt"
                        if name in files:
                            files[name].write(b"\n")
                        else:
                            path = os.path.join(self._folder, name)
                            files[name] = stack.enter_context(open(path, "wb"))
                        files[name].write(one.text)
                        counts.update({**one.counts, "kept": 1, "dev": int(is_dev)})
        return self._report(made_from, list(files))

    def _batches(self, watch: Callable[[int], object]) -> Iterator[list[Document]]:
        batch, size = [], 0
        for number, source in enumerate(self._sources):
            tally = self._tallies[number]
            for document in read_documents(number, source, self._options, tally, watch):
                batch.append(document)
                size += len(document.text)
                if size >= _BATCH:
                    yield batch
                    batch, size = [], 0
        if batch:
            yield batch

    def _convert(self, batch: Iterable[Document]) -> list[Converted]:
        return [convert(document, self._options) for document in batch]

    def _report(self, made_from: dict, names: Sequence[str]) -> dict:
        inputs = [
            {**described, **{name: tally.counts[name] for name in COUNTS}, "faults": tally.faults}
            for described, tally in zip(made_from["inputs"], self._tallies, strict=True)
        ]
        totals = {name: sum(one[name] for one in inputs) for name in COUNTS}
        if not names:
            dropped = [f"{totals[name]} {name}" for name in REASONS if totals[name]]
            counted = ", ".join([f"{totals['read']} read", *dropped])
            faults = [fault for tally in self._tallies for fault in tally.faults][:_FAULTS_SHOWN]
            raise UserError("; ".join([f"no document to keep ({counted})", *faults]))
        return {
            "made_from": made_from,
            "files": {name: os.path.getsize(os.path.join(self._folder, name)) for name in names},
            "totals": totals,
            "inputs": inputs,
        }


def convert(document: Document, options: Options) -> Converted:
    """Converts a document to lines of sentences."""
    # JSON can have halves of surrogate pairs, which UTF-8 cannot.
    text = document.text.encode(errors="replace").decode()
    lines, cut = sentences.split_sentences(text, options.language)
    characters = sum(map(len, lines))
    if characters < options.min_chars or len(lines) < _FEWEST_SENTENCES:
        return Converted(document.source)
    joined = "\n".join(lines) + "\n"
    counts = {"sentences": len(lines), "characters": characters, "cut_sentences": cut}
    return Converted(document.source, joined.encode(), content_hash(joined), counts)


def content_hash(text: str) -> int:
    """Returns a 64-bit hash of a text, the same for any case, width and white space."""
    normalized = " ".join(unicodedata.normalize("NFKC", text).lower().split())
    digest = hashlib.blake2b(normalized.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
