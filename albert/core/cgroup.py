"""The limits that Linux cgroups, such as a container's, set for this process."""

from __future__ import annotations

import os
from collections.abc import Iterator


def settings(controller: str, old: str, new: str, root: str = "/") -> Iterator[tuple[str, str]]:
    """Yields path and content of a setting's files: of this process's cgroup and of all above it.

    In a container the path may be that on the host, of which only the container's own root is seen.

    Args:
      controller: such as "memory".
      old, new: the files' name in versions 1 and 2 of cgroups.
      root: where `proc` and `sys` are.
    """
    groups = os.path.join(root, "sys/fs/cgroup")
    for line in read(os.path.join(root, "proc/self/cgroup")).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top, name = (os.path.join(groups, controller), old) if controllers else (groups, new)
        parts = os.path.normpath(path).strip("/").split("/")
        for depth in range(len(parts) + 1):
            file = os.path.join(top, *parts[:depth], name)
            if content := read(file).strip():
                yield file, content


def read(path: str) -> str:
    """Returns a file's text, "" if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
