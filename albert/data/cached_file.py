"""Files derived from others, reused only while they are what would be derived again.

Beside a derived file `NAME` lies a header `NAME.json`: format version, what it was made from, a
summary of it, hashes of its content and its companions', and a hash of all that. In the header the
second is called "source" and the third "facts". The header is written before the files take their
names, so that after a crash it never vouches for a file it does not describe.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.core.files import (
    content_of,
    remove_temporary_files,
    sha256_of,
    temporary_name,
    write_json,
)
from albert.core.locks import exclusive, remove_abandoned
from albert.distributed import collectives

_FORMAT, _VERSION = "albert-derived-file", 1
# How every header begins, also one whose end was lost.
_BEGINNING = f'{{\n  "format": "{_FORMAT}"'.encode()
_PARTS = ("source", "facts", "files")
# The hash of the rest of a header. Earlier headers have none, and are read as well.
_OWN_HASH = "header_sha256"
# Seconds in which a launcher certainly ends a job after one of its processes has failed.
_END_OF_JOB = 10.0


class Snapshot(NamedTuple):
    """What files are at a moment, to be told later whether they are still the same.

    Attributes:
      states: of every file that is there, what `_state` gives.
    """

    states: dict[str, tuple[int, ...]]

    @classmethod
    def of(cls, paths: Sequence[str]) -> Snapshot:
        """Records what these files are now; `check` ignores those that are missing now."""
        return cls({path: state for path in paths if (state := _state(path))})

    def check(self) -> None:
        """Checks, after the files were opened or read, that they are still the same.

        Raises:
          UserError: a file is another one now, or gone.
        """
        for path, state in self.states.items():
            if _state(path) != state:
                raise UserError(
                    f"{path} was replaced while this job ran; give each job a feature file of its "
                    "own"
                )


def _state(path: str) -> tuple[int, ...] | None:
    """Returns the identity of a file, which replacing it changes; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class _OvertakenError(UserError):
    """Another process has taken this one for dead and removed what it was writing."""


class CachedFile:
    """A file and its companions, and what they are made from.

    Attributes:
      paths: the file and its companions.
      made_from: JSON object, everything that the content is a function of.
    """

    def __init__(
        self,
        path: str,
        made_from: dict,
        companions: Sequence[str] = (),
        numbers: Sequence[str] = (),
    ):
        """Describes the file; `numbers` name the integers that its summary must have."""
        self.paths = [path, *companions]
        self.made_from = made_from
        self._numbers = numbers
        self._header_path = path + ".json"

    def reusable(self, explain: bool = True) -> dict | None:
        """Returns the files' summary if they are whole and made from `made_from`, else None.

        Where files of ours are there that cannot be used, a log line says why (`explain`).
        """
        header = self._header()
        if header is None:
            return None
        reason = self._why_not(header)
        if reason is None:
            tf.logging.info("Reusing %s", " and ".join(self.paths))
            return header["facts"]
        if explain:
            tf.logging.info("%s is made anew: %s", self.paths[0], reason)
        return None

    def state(self, check: Callable[[], object]) -> str:
        """Says for people whether `build_once` would find the files ready; nothing is changed.

        Args:
          check: checks a file that this program did not write.

        Raises:
          UserError: as `build_once` and `check` would.
        """
        header = self._header()
        reason = self._why_not(header) if header is not None else None
        if header is not None and reason is None:
            return "reused"
        if self.is_foreign():
            check()
            return "there, without a header of ours"
        return "to be made" if reason is None else f"to be made anew: {reason}"

    def build_once(
        self, build: Callable[[], dict], check: Callable[[], dict]
    ) -> tuple[dict, Snapshot]:
        """Finds the files, or makes them by `build` if they cannot be used.

        Of several processes that need the same files one makes them and the others wait; of the
        workers of a job preferably the one whose log is shown. Files that are there are only read,
        by all processes at the same time.

        Args:
          build: makes the files and returns their summary.
          check: checks a file that this program did not write, and returns its summary.

        Returns:
          The summary, and a snapshot of the files as they were found or made.

        Raises:
          UserError: something stands in the way, or a file cannot be written.
        """
        found = self._found(check)
        if found:
            # Of a process that was killed between writing the header and releasing it.
            remove_abandoned(self.paths[0])
            return found
        collectives.wait_for_rank_0()
        made = self._made(build, check) or self._made(build, check, again=True)
        assert made is not None, "the second time it is found or made"
        return made

    def _found(
        self, check: Callable[[], dict], explain: bool = True
    ) -> tuple[dict, Snapshot] | None:
        # Taken first, so that a file that changes while it is looked at is another one later.
        snapshot = Snapshot.of(self.paths)
        summary = self.reusable(explain)
        if summary is None and self.is_foreign():
            summary = check()
        return None if summary is None else (summary, snapshot)

    def _made(
        self, build: Callable[[], dict], check: Callable[[], dict], again: bool = False
    ) -> tuple[dict, Snapshot] | None:
        """Builds unless another process has; None if that must be tried `again`."""
        is_of_job = bool(collectives.label())
        if again and is_of_job:
            # The one that had the lock has failed. The job is ended now, this process with it, and
            # had better do nothing meanwhile: on a full disk it would leave half a file.
            time.sleep(_END_OF_JOB)
        with self.lock() as waited:
            found = self._found(check, explain=False)
            if found or (waited and is_of_job and not again):
                return found
            try:
                return build(), Snapshot.of(self.paths)
            except _OvertakenError:
                if again:
                    raise
                return None

    def lock(self) -> contextlib.AbstractContextManager[bool]:
        """Returns the lock to hold from asking whether the file is reusable to having built it."""
        return exclusive(self.paths[0])

    def is_foreign(self) -> bool:
        """Tells whether what stands at the file's own name was not written by this program.

        Raises:
          UserError: it is no file, or something foreign stands at a companion's or the header's
            name.
        """
        for path in self.paths:
            if os.path.lexists(path) and not os.path.isfile(path):
                raise UserError(f"{path} is not a file; give another name")
        # Looked at before the header is read: they may be about to appear, after the header.
        there = [path for path in (*self.paths, self._header_path) if os.path.lexists(path)]
        header = self._header()
        path, *companions = self.paths
        for companion in companions:
            if companion in there and not self._is_of(header, companion):
                raise UserError(
                    f"{companion} exists and was not written by this program for {path}; it is "
                    "neither read nor replaced: give another name or remove it"
                )
        if path in there:
            return not self._is_of(header, path)
        if self._header_path in there and header is None:
            raise UserError(
                f"{self._header_path} exists and is no header of {path}; it is not replaced: give "
                "another name or remove it"
            )
        return False

    @contextlib.contextmanager
    def building(self) -> Iterator[tuple[list[str], dict]]:
        """Yields names to write (for `paths`, in order) and a dictionary for the summary.

        The lock is to be held: what builders that were killed have left is removed.

        Raises:
          UserError: the disk is full or a folder cannot be written.
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
                # After the hashes, which take longest, and before the header vouches for them.
                self._check_not_overtaken(names)
            except (OSError, tf.errors.OpError) as e:
                self._check_not_overtaken(names)
                reason = getattr(e, "strerror", None) or str(e).splitlines()[0]
                raise UserError(f"{self.paths[0]} cannot be written: {reason}") from e
            header = {"format": _FORMAT, "version": _VERSION, "source": self.made_from}
            header |= {"facts": summary, "files": hashes}
            write_json(self._header_path, {**header, _OWN_HASH: _hash(header)})

    def _check_not_overtaken(self, names: Sequence[str]) -> None:
        if not all(map(os.path.exists, names)):
            raise _OvertakenError(
                f"{self.paths[0]} cannot be written: another process has removed what was written "
                "of it, as it does when this one was paused; try again"
            )

    def _header(self) -> dict | None:
        """Returns the header if it is one of ours, of any version; {} if it is damaged."""
        try:
            with open(self._header_path, "rb") as file:
                content = file.read()
        except OSError:
            return None
        # By its beginning or by its end: either may be damaged.
        is_ours = content.startswith(_BEGINNING) or f'"{_OWN_HASH}"'.encode() in content
        try:
            header = json.loads(content)
        except (ValueError, RecursionError):
            return {} if is_ours else None
        is_ours = isinstance(header, dict) and (is_ours or header.get("format") == _FORMAT)
        return header if is_ours else None

    def _is_of(self, header: dict | None, path: str) -> bool:
        """Tells whether the header describes a file, or may describe it if it is damaged."""
        if header is None:
            return False
        files = header.get("files")
        is_damaged = _OWN_HASH in header and not self._is_sound(header)
        return is_damaged or not isinstance(files, dict) or self._key(path) in files

    def _why_not(self, header: dict) -> str | None:
        """Says why the files that this header describes cannot be reused; None if they can."""
        damaged = f"its header {self._header_path} is damaged"
        if "version" not in header:
            return damaged
        if header["version"] != _VERSION:
            return f"its header is version {header['version']}, this program writes {_VERSION}"
        if not self._is_sound(header):
            return damaged
        for key, value in self.made_from.items():
            if header["source"].get(key) != value:
                return f"it was made with {key} {header['source'].get(key)}, now it is {value}"
        for path in self.paths:
            if not os.path.isfile(path):
                return f"{path} is missing"
            if sha256_of(path) != header["files"].get(self._key(path)):
                return f"the content of {path} is not what was written"
        return None

    def _is_sound(self, header: dict) -> bool:
        """Tells whether a header of this version is what was written, as far as can be known."""
        rest = dict(header)
        own_hash = rest.pop(_OWN_HASH, None)
        return (
            rest.keys() == {"format", "version", *_PARTS}
            and all(isinstance(rest[part], dict) for part in _PARTS)
            and all(type(rest["facts"].get(name)) is int for name in self._numbers)
            and (_OWN_HASH not in header or own_hash == _hash(rest))
        )

    def _key(self, path: str) -> str:
        """Returns the name of a file in the header: relative, so that the folder may be moved."""
        return os.path.relpath(path, os.path.dirname(self._header_path) or ".")


def _hash(header: dict) -> str:
    """Returns the SHA-256 of a header without its own hash; JSON keeps the order of keys."""
    return hashlib.sha256(json.dumps(header).encode()).hexdigest()


def files_of_header(path: str) -> list[str]:
    """Lists the file that a header of ours belongs to, and its companions; [] for another file.

    Args:
      path: of the header, with .json at its end.
    """
    own = path.removesuffix(".json")
    header = CachedFile(own, {})._header()
    if header is None:
        return []
    files = header.get("files")
    names = files if isinstance(files, dict) else ()
    return [own, *(os.path.join(os.path.dirname(path), name) for name in names)]


def content_of_records(path: str) -> str:
    """Identifies a record file by its content, or by that of its header, which is shorter.

    Whether the header describes the file must have been checked before.
    """
    header = path + ".json"
    return content_of(header if files_of_header(header) else path)


def is_intact(path: str) -> bool | None:
    """Tells whether a file is as it was written, from anything; None without a header of ours."""
    file = CachedFile(path, {})
    header = file._header()
    return None if header is None else file._why_not(header) is None
