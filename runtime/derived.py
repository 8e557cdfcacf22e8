"""Files derived from others, reused only while they are what would be derived again.

Beside a derived file `NAME` lies a header `NAME.json`: format version, what it was made from, facts
about it, and hashes of its content and its companions'. The header is written before the files
take their names, so that after a crash it never vouches for a file it does not describe.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence

import tensorflow.compat.v1 as tf

from runtime import distributed
from runtime.errors import UserError
from runtime.files import remove_temporary_files, sha256_of, temporary_name, write_json
from runtime.locks import one_at_a_time

_FORMAT, _VERSION = "albert-derived-file", 1


class DerivedFile:
    """A file and its companions, made from a source.

    Attributes:
      paths: the file and its companions.
      source: JSON object, everything that the content is a function of.
    """

    def __init__(self, path: str, source: dict, companions: Sequence[str] = ()):
        self.paths = [path, *companions]
        self.source = source
        self._header_path = path + ".json"

    def reusable(self, explain: bool = True) -> dict | None:
        """The facts of the files if they are whole and made from the source, else None.

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

    def state(self) -> str:
        """Whether the files would be reused, for people; nothing is locked or changed."""
        header = self._header()
        if header is None:
            is_there = os.path.exists(self.paths[0])
            return "there, without a header of ours" if is_there else "to be made"
        reason = self._why_not(header)
        return "reused" if reason is None else f"to be made anew: {reason}"

    def made_once(self, build: Callable[[], dict]) -> dict:
        """The facts of the files, which `build` makes if they are not reusable.

        Of several processes that need the same files one makes them and the others wait; of the
        workers of a job preferably the one whose log is shown.
        """
        facts = self.reusable()
        if facts is None:
            distributed.let_rank_0_go_first()
            with self.lock():
                facts = self.reusable(explain=False) or build()
        return facts

    def lock(self) -> contextlib.AbstractContextManager:
        """To be held from asking whether the file is reusable to having built it."""
        return one_at_a_time(self.paths[0])

    def is_foreign(self) -> bool:
        """Whether something stands at the file's own name that this program did not write.

        Raises:
          UserError: it is no file, or something foreign stands at a companion's or the header's
            name.
        """
        for path in self.paths:
            if os.path.lexists(path) and not os.path.isfile(path):
                raise UserError(f"{path} is not a file; give another name")
        files = (self._header() or {}).get("files", {})
        path, *companions = self.paths
        for companion in companions:
            if os.path.exists(companion) and self._key(companion) not in files:
                raise UserError(
                    f"{companion} exists and was not written by this program for {path}; it is "
                    "neither read nor replaced: give another name or remove it"
                )
        if os.path.exists(path):
            return self._key(path) not in files
        if os.path.lexists(self._header_path) and not self._header():
            raise UserError(
                f"{self._header_path} exists and is no header of {path}; it is not replaced: give "
                "another name or remove it"
            )
        return False

    @contextlib.contextmanager
    def building(self) -> Iterator[tuple[list[str], dict]]:
        """Yields names to write (for `paths`, in order) and a dictionary to put the facts in.

        The lock is to be held: what builders that were killed have left is removed.

        Raises:
          UserError: the disk is full or a folder cannot be written.
        """
        facts = {}
        for path in self.paths:
            remove_temporary_files(path)
        try:
            with contextlib.ExitStack() as stack:
                names = [stack.enter_context(temporary_name(path)) for path in self.paths]
                yield names, facts
                hashes = {
                    self._key(p): sha256_of(name) for p, name in zip(self.paths, names, strict=True)
                }
                header = {"format": _FORMAT, "version": _VERSION, "source": self.source}
                write_json(self._header_path, {**header, "facts": facts, "files": hashes})
        except (OSError, tf.errors.ResourceExhaustedError, tf.errors.InternalError) as e:
            reason = getattr(e, "strerror", None) or str(e).splitlines()[0]
            raise UserError(f"{self.paths[0]} cannot be written: {reason}") from e

    def _header(self) -> dict | None:
        """The header if there is one of ours, whatever its version."""
        try:
            with open(self._header_path, encoding="utf-8") as file:
                header = json.load(file)
        except (OSError, ValueError):
            return None
        return header if isinstance(header, dict) and header.get("format") == _FORMAT else None

    def _why_not(self, header: dict) -> str | None:
        """Why the files that this header describes cannot be reused, or None."""
        if header["version"] != _VERSION:
            return f"its header is version {header['version']}, this program writes {_VERSION}"
        for key, value in self.source.items():
            if header["source"].get(key) != value:
                return f"it was made with {key} {header['source'].get(key)}, now it is {value}"
        for path in self.paths:
            if not os.path.isfile(path):
                return f"{path} is missing"
            if sha256_of(path) != header["files"].get(self._key(path)):
                return f"the content of {path} is not what was written"
        return None

    def _key(self, path: str) -> str:
        """The name of a file in the header: relative, so that the folder may be moved."""
        return os.path.relpath(path, os.path.dirname(self._header_path) or ".")
