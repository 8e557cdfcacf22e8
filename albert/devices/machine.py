"""The processor of this machine: what it can do, and what is fast on it."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from albert.devices.host import read

# The instruction sets, by Linux's names of their flags.
_NAMES = {
    **{"avx2": "AVX2", "avx512f": "AVX-512", "avx512_vnni": "AVX512_VNNI"},
    **{"avx512_bf16": "AVX512_BF16", "amx_bf16": "AMX"},
}
# The variable that limits the instructions of oneDNN, and how many of these names its values allow;
# other values allow all.
LIMIT = "ONEDNN_MAX_CPU_ISA"
_ALLOWED = {
    **dict.fromkeys(("SSE41", "AVX"), 0),
    **dict.fromkeys(("AVX2", "AVX2_VNNI", "AVX2_VNNI_2"), 1),
    **{"AVX512_CORE": 2, "AVX512_CORE_VNNI": 3, "AVX512_CORE_BF16": 4, "AVX512_CORE_FP16": 4},
}
_WITH_BFLOAT16 = ("AVX512_BF16", "AMX")


class Cpu(NamedTuple):
    """A processor; its `str` is human-readable.

    `model` is "" if unknown; `instructions`, some of the names above, are None then. They are those
    that oneDNN may use. `limit` names the variable that rules others out, if any.
    """

    model: str
    instructions: tuple[str, ...] | None
    limit: str = ""

    def __str__(self) -> str:
        names = self.instructions
        has = "unknown instruction sets" if names is None else ", ".join(names) or "no AVX2"
        return f"{self.model or 'unknown'} ({has}{self._limited})"

    @property
    def _limited(self) -> str:
        return f", limited by {self.limit}" if self.limit else ""

    def bfloat16(self) -> tuple[bool | None, str]:
        """Returns whether it multiplies bfloat16 (None if unknown), and the reason."""
        if self.instructions is None:
            return None, ""
        fast = [name for name in self.instructions if name in _WITH_BFLOAT16]
        if fast:
            return True, f"the processor has {' and '.join(fast)}"
        return False, f"the processor has neither {' nor '.join(_WITH_BFLOAT16)}{self._limited}"

    def fastest(self) -> tuple[str, str]:
        """Returns the type in which it computes a model fastest, and the reason."""
        names, (has, why) = self.instructions or (), self.bfloat16()
        # Without AMX, bfloat16 took 1.7 times as long as float32 on an Intel processor with
        # AVX512_BF16, but 0.55 times as long on AMD's (docs/benchmark-log.md).
        if "AMX" in names or ("AVX512_BF16" in names and "AMD" in self.model):
            return "bfloat16", why
        if has is False:
            return "float32", why
        return "float32", f"this processor is not known to be faster in bfloat16: {self}"


def find_processor(root: str = "/") -> Cpu:
    """Returns the processor of this host; `root` is the folder of `proc`."""
    text = read(os.path.join(root, "proc/cpuinfo"))
    # The lines of the first core. Only x86 processors have lines with these keys.
    model, flags = (
        re.search(rf"^{key}\s*:(.*)$", text, re.MULTILINE) for key in ("model name", "flags")
    )
    name = model[1].strip() if model else ""
    if not flags:
        return Cpu(name, None)
    value = os.environ.get(LIMIT, "")
    there, allowed = set(flags[1].split()), list(_NAMES.items())[: _ALLOWED.get(value.upper())]
    usable = tuple(instructions for flag, instructions in allowed if flag in there)
    ruled_out = there.intersection(_NAMES) - {flag for flag, _ in allowed}
    return Cpu(name, usable, f"{LIMIT}={value}" if ruled_out else "")
