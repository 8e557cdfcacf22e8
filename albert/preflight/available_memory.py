"""The memory of this host, of the container that runs the program, and of a card."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from albert.devices import host

_UNITS = {"MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}
_SIZE = re.compile(rf"(\d{{1,9}}(?:\.\d{{1,9}})?) ?({'|'.join(_UNITS)})")
# Commands that print a line such as "32768 MiB" for each card: its total memory.
_CARD_TOOLS = {
    "gpu": ("nvidia-smi", "--query-gpu=memory.total", "--format=csv"),
    "hpu": ("hl-smi", "-Q", "memory.total", "-f", "csv"),
}
_CARD_LINE = re.compile(r"^(\d+) MiB$", re.MULTILINE)


class Memory(NamedTuple):
    """An amount of memory in bytes, and where the number comes from."""

    size: int
    source: str


def parse_size(text: str) -> int:
    """Returns the bytes of a size like "31.5 GiB" or "2MB"; raises a `ValueError` if none or 0."""
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * _UNITS[match[2]]) if match else 0
    if not size:
        raise ValueError(f"{text!r} is not a size; write it like 32GB ({', '.join(_UNITS)})")
    return size


def host_memory(in_use: int = 0, root: str = "/") -> Memory | None:
    """Returns the memory available to a job: the host's free memory, or a lower cgroup limit.

    The result is None if no amount is known, as on systems other than Linux.

    Args:
      in_use: bytes that this program and its other workers use, and free before the job begins.
      root: the folder that has `proc` and `sys`.
    """
    amounts = [_free_memory(in_use, root), *_limits(root)]
    return min(filter(None, amounts), default=None)


def _free_memory(in_use: int, root: str) -> Memory | None:
    kilobytes = re.search(
        r"^MemAvailable: +(\d+) kB$", host.read(os.path.join(root, "proc/meminfo")), re.MULTILINE
    )
    if kilobytes is None:
        return None
    return Memory(int(kilobytes[1]) * 1024 + in_use, "available on this host")


def _limits(root: str) -> list[Memory]:
    """Returns the limits of this process's cgroups."""
    limits = host.cgroup_settings("memory", "memory.limit_in_bytes", "memory.max", root)
    # "max" means no limit; cgroup version 1 has a huge number instead.
    return [Memory(int(limit), f"allowed by {file}") for file, limit in limits if limit.isdecimal()]


def card_memory(kind: str) -> Memory | None:
    """Returns the memory of each "gpu" or "hpu" of this host, as the vendor's tool reports it.

    The result is None if the tool is missing, its output is not understood, or the cards differ.
    """
    command = _CARD_TOOLS[kind]
    sizes = set(_CARD_LINE.findall(host.run_tool(command)))
    source = f"on a card, from {command[0]}"
    return Memory(int(sizes.pop()) * 2**20, source) if len(sizes) == 1 else None
