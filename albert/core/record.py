"""Records: JSON files that say what other files were made from, so that those can be reused.

A record holds the values that the files depend on, the version of the format, and, in most kinds,
a digest of each file. The names of its members are those of its kind, and stay from version to
version. The caller decides what a difference means: an error, or to make the files again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from albert.core.errors import UserError
from albert.core.files import read_object, sha256_of

_SHOWN = 100  # characters of a value in a message


class Difference(NamedTuple):
    """A value that is not the recorded one; None for a value that only the other side has."""

    name: str
    was: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.name} (was {self.was!s:.{_SHOWN}}, is {self.now!s:.{_SHOWN}})"


def read_record(path: str, what: str, *members: str) -> dict[str, Any] | None:
    """Reads a record with these objects; returns None if it does not exist.

    `what` describes the file in messages. Raises a `UserError` if the record is damaged.
    """
    if not os.path.exists(path):
        return None
    try:
        record = read_object(path, what)
    except UserError as e:
        raise UserError(f"{path} is damaged: {e}") from e
    for name in members:
        if not isinstance(record.get(name), dict):
            raise UserError(f'{path} is damaged: it has no object "{name}"')
    return record


def differences(
    recorded: Mapping[str, Any],
    current: Mapping[str, Any],
    earlier: Mapping[str, Any] | None = None,
) -> list[Difference]:
    """Returns the values that are not the recorded ones, in the order of their names.

    Objects are compared by their members, whose names are joined by a dot. `earlier` has values of
    settings that are newer than the record, and so not in it.
    """
    changes = []
    for name in sorted(recorded.keys() | current.keys()):
        was, now = recorded.get(name, (earlier or {}).get(name)), current.get(name)
        if isinstance(was, dict) and isinstance(now, dict):
            changes += [one._replace(name=f"{name}.{one.name}") for one in differences(was, now)]
        elif was != now:
            changes.append(Difference(name, was, now))
    return changes


def change_in(folder: str, files: Mapping[str, str | None]) -> str | None:
    """Returns which of the recorded files is missing or has changed, or None.

    `files` has by name the SHA-256, or None if the file only has to exist.
    """
    for name, recorded in files.items():
        path = os.path.join(folder, name)
        if not os.path.isfile(path):
            return f"{path} is missing"
        if recorded is not None and sha256_of(path) != recorded:
            return f"the content of {path} has changed"
    return None
