"""Which instructions the processor of this host has, of those that matrix products are fast by."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from albert.core import cgroup

# By the names that Linux has for them.
_NAMES = {"avx2": "AVX2", "avx512f": "AVX-512", "avx512_bf16": "AVX512_BF16", "amx_bf16": "AMX"}
_OF_BFLOAT16 = ("AVX512_BF16", "AMX")


class Processor(NamedTuple):
    """A processor; `str` of it is for people.

    Attributes:
      model: its name; "" where the system does not say.
      instructions: what it has of AVX2, AVX-512, AVX512_BF16 and AMX; None if that is not known.
    """

    model: str
    instructions: tuple[str, ...] | None

    def __str__(self) -> str:
        found = self.instructions
        has = "instructions not known" if found is None else ", ".join(found) or "no AVX2"
        return f"{self.model or 'unknown'} ({has})"

    def bfloat16(self) -> tuple[bool | None, str]:
        """Tells whether products are faster in bfloat16 than in float32, and why, for people.

        The first is None where that is not known.
        """
        if self.instructions is None:
            return None, ""
        found = [name for name in self.instructions if name in _OF_BFLOAT16]
        if found:
            return True, f"the processor has {' and '.join(found)}"
        return False, f"the processor has neither {' nor '.join(_OF_BFLOAT16)}"


def find(root: str = "/") -> Processor:
    """Returns the processor of this host; `root` is where `proc` is."""
    text = cgroup.read(os.path.join(root, "proc/cpuinfo"))
    # The first core stands for all. Only processors of this family have these lines.
    model, flags = (
        re.search(rf"^{key}\s*:(.*)$", text, re.MULTILINE) for key in ("model name", "flags")
    )
    there = flags and set(flags[1].split())
    return Processor(
        model[1].strip() if model else "",
        tuple(name for flag, name in _NAMES.items() if flag in there) if there else None,
    )
