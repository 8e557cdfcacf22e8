"""Derived files, reused only while their sources and content are unchanged.

Each derived file `NAME` has a header `NAME.json`. It holds the format version, the sources of the
file ("source"), a summary ("facts"), hashes of the file and its companions ("files"), and a hash of
the rest. The header is written before the files get their names, so that after a crash it never
matches a file that it does not describe.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.core.files import (
    content_of,
    flush,
    parse_json,
    remove_temporary_files,
    sha256_of,
    temporary_name,
    write_json,
)
from albert.core.locks import exclusive
from albert.core.record import change_in, differences
from albert.core.text import first_line
from albert.distributed import launcher

_FORMAT, _VERSION = "albert-derived-file", 1
_PARTS = ("source", "facts", "files")
# The hash of the rest of a header.
_OWN_HASH = "header_sha256"


class Snapshot(NamedTuple):
    """The state of existing files (see `_state`) at one moment, to detect later changes."""

    states: dict[str, tuple[int, ...]]

    @classmethod
    def of(cls, paths: Sequence[str]) -> Snapshot:
        """Records the current state of files; `check` ignores those that do not exist now."""
        return cls({path: state for path in paths if (state := _state(path))})

    def check(self) -> None:
        """Raises a `UserError` if a file was replaced or removed; call it after opening them."""
        for path, state in self.states.items():
            if _state(path) != state:
                raise UserError(
                    f"{path} was replaced while this job ran; give each job its own feature file"
                )


def _state(path: str) -> tuple[int, ...] | None:
    """Returns values that change when a file is replaced; None if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class CachedFile:
    """A derived file with its companions, all in `paths`, and its sources.

    `made_from` is a JSON object with everything that the content depends on.
    """

    def __init__(self, path: str, made_from: dict, companions: Sequence[str] = ()):
        self.paths = [path, *companions]
        self.made_from = made_from
        self._header_path = path + ".json"

    def reusable(self, explain: bool = True) -> dict | None:
        """Returns the files' summary if they are intact and made from `made_from`, else None.

        `explain` is whether to log why existing files of this program cannot be reused.
        """
        header = self._header()
        if header is None:
            return None
        reason = self._why_not(header)
        if reason is None:
            tf.logging.info("Reusing %s", " and ".join(self.paths))
            return header["facts"]
        if explain:
            tf.logging.info("Making %s again: %s", self.paths[0], reason)
        return None

    def state(self, check: Callable[[], object]) -> str:
        """Returns, human-readable, whether `build_once` would reuse the files; changes nothing.

        Raises the errors of `build_once` and of `check`, which checks a file of another program.
        """
        header = self._header()
        reason = "" if header is None else self._why_not(header)
        if reason is None:
            return "reused"
        if self.is_foreign():
            check()
            return "exists, not written by this program"
        return f"will be made again: {reason}" if reason else "will be made"

    def build_once(
        self, build: Callable[[], dict], check: Callable[[], dict]
    ) -> tuple[dict, Snapshot]:
        """Finds the files, or makes them with `build` if they cannot be reused.

        If several processes need the same files, one makes them and the others wait; among the
        workers of a job, preferably the one whose log is shown. Existing files are only read, by
        all processes at the same time. Raises a `UserError` if a file of another program is in the
        way, or a file cannot be written. For example, two runs start with one folder of data: the
        first takes the lock and builds, the second waits, then finds the files and reads them. If
        the first is killed, the second takes the lock and builds.

        Args:
          build: makes the files and returns their summary.
          check: checks a file that this program did not write, and returns its summary.

        Returns:
          The summary, and a snapshot of the files when they were found or made.
        """
        if existing := self._existing(check):
            return existing
        launcher.wait_for_rank_0()
        with self.lock():
            return self._existing(check, explain=False) or (build(), Snapshot.of(self.paths))

    def _existing(
        self, check: Callable[[], dict], explain: bool = True
    ) -> tuple[dict, Snapshot] | None:
        # Taken first, so that `Snapshot.check` notices a file that changes during the checks below.
        snapshot = Snapshot.of(self.paths)
        summary = self.reusable(explain)
        if summary is None and self.is_foreign():
            summary = check()
        return None if summary is None else (summary, snapshot)

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Returns the lock to hold from the check for reuse until the file is built."""
        return exclusive(self.paths[0])

    def is_foreign(self) -> bool:
        """Returns whether the file exists and was not written by this program.

        Raises:
          UserError: a path is no regular file, or a companion or header is another program's.
        """
        for path in self.paths:
            if os.path.lexists(path) and not os.path.isfile(path):
                raise UserError(f"{path} is not a file; give another name")
        # Checked before the header is read, because another process may be about to create the
        # files, which it does after the header.
        there = [path for path in (*self.paths, self._header_path) if os.path.lexists(path)]
        header = self._header()
        main, *companions = self.paths
        others = [path for path in there if path in companions and not self._is_of(header, path)]
        if main not in there and header is None:
            others += [path for path in there if path == self._header_path]
        if others:
            raise UserError(
                f"{others[0]} exists and was not written by this program for {main}; give another "
                "name or remove it"
            )
        return main in there and not self._is_of(header, main)

    @contextlib.contextmanager
    def building(self) -> Iterator[tuple[list[str], dict]]:
        """Yields names to write (for `paths`, in order) and a dictionary for the summary.

        The caller must hold the lock, because this removes unfinished files of killed processes.
        Raises a `UserError` if the disk is full or a folder cannot be written.
        """
        summary: dict[str, Any] = {}
        for path in (*self.paths, self._header_path):
            remove_temporary_files(path)
        with contextlib.ExitStack() as stack:
            names = [stack.enter_context(temporary_name(path)) for path in self.paths]
            try:
                yield names, summary
                hashes = {
                    self._key(p): sha256_of(name) for p, name in zip(self.paths, names, strict=True)
                }
                # A disk error may come only now, and must leave the old files. So may the end of a
                # long pause, in which another process has taken the lock and removed these.
                for name in names:
                    flush(name)
            except (OSError, tf.errors.OpError) as e:
                reason = getattr(e, "strerror", None) or first_line(e)
                raise UserError(f"{self.paths[0]} cannot be written: {reason}") from e
            header = {"format": _FORMAT, "version": _VERSION, "source": self.made_from}
            header |= {"facts": summary, "files": hashes}
            write_json(self._header_path, {**header, _OWN_HASH: _hash(header)})

    def _header(self) -> dict | None:
        """Returns this program's header, of any version; {} if it is damaged, None if missing."""
        try:
            with open(self._header_path, "rb") as file:
                content = file.read()
        except OSError:
            return None
        # Recognized by its beginning or its end, because either may be damaged.
        if not any(mark.encode() in content for mark in (_FORMAT, _OWN_HASH)):
            return None
        try:
            header = parse_json(content, self._header_path)
        except UserError:
            return {}
        return header if isinstance(header, dict) else {}

    def _is_of(self, header: dict | None, path: str) -> bool:
        """Returns whether the header describes a file; True if a damaged header might."""
        return header is not None and (not _is_sound(header) or self._key(path) in header["files"])

    def _why_not(self, header: dict) -> str | None:
        """Returns why the files that this header describes cannot be reused; None if they can."""
        version = header.get("version", _VERSION)
        if version != _VERSION:
            return f"its header has version {version}, and this program writes {_VERSION}"
        if not _is_sound(header):
            return f"its header {self._header_path} is damaged"
        source = {n: value for n, value in header["source"].items() if n in self.made_from}
        if different := ", ".join(map(str, differences(source, self.made_from))):
            return f"it was made with other values of {different}"
        # A file without a digest in the header does not match it.
        digests = {path: header["files"].get(self._key(path), "") for path in self.paths}
        return change_in("", digests)

    def _key(self, path: str) -> str:
        """Returns a file's name in the header: relative, so that the folder can be moved."""
        return os.path.relpath(path, os.path.dirname(self._header_path) or ".")


def _is_sound(header: dict) -> bool:
    """Returns whether a header of this version is complete and matches its hash."""
    rest = {name: value for name, value in header.items() if name != _OWN_HASH}
    return (
        rest.keys() == {"format", "version", *_PARTS}
        and all(isinstance(rest[part], dict) for part in _PARTS)
        and header.get(_OWN_HASH) == _hash(rest)
    )


def _hash(header: dict) -> str:
    """Returns the SHA-256 of a header without its own hash; JSON keeps the order of keys."""
    return hashlib.sha256(json.dumps(header).encode()).hexdigest()


def content_of_records(path: str) -> str:
    """Returns a digest of a record file, or of its header, which is shorter.

    The caller must have checked that the header matches the file.
    """
    has_header = CachedFile(path, {})._header() is not None
    return content_of(f"{path}.json" if has_header else path)


def is_intact(path: str) -> bool | None:
    """Returns whether a file matches its header, from any sources; None without a header."""
    file = CachedFile(path, {})
    header = file._header()
    return None if header is None else file._why_not(header) is None
