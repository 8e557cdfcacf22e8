"""The memory of this host, of the container that runs the program, and of a card."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from albert.devices import host

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


def host_memory(in_use: int = 0, root: str = "/") -> Memory | None:
    """Returns the memory available to a job: the host's free memory, or a lower cgroup limit.

    The result is None if no amount is known, as on systems other than Linux. This program and its
    other workers free the bytes `in_use` before the job begins. `root` has `proc` and `sys`.
    """
    limits = host.cgroup_settings("memory", "memory.limit_in_bytes", "memory.max", root)
    # "max" means no limit; cgroup version 1 has a huge number instead.
    amounts = [Memory(int(n), f"allowed by {file}") for file, n in limits if n.isdecimal()]
    text = host.read(os.path.join(root, "proc/meminfo"))
    if kilobytes := re.search(r"^MemAvailable: +(\d+) kB$", text, re.MULTILINE):
        amounts.append(Memory(int(kilobytes[1]) * 1024 + in_use, "available on this host"))
    return min(amounts, default=None)


def card_memory(kind: str) -> Memory | None:
    """Returns the memory of each "gpu" or "hpu" of this host, as the vendor's tool reports it.

    The result is None if the tool is missing, its output is not understood, or the cards differ.
    """
    command = _CARD_TOOLS[kind]
    sizes = set(_CARD_LINE.findall(host.run_tool(command)))
    source = f"on a card, from {command[0]}"
    return Memory(int(sizes.pop()) * 2**20, source) if len(sizes) == 1 else None
