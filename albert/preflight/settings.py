"""Options of the check of a job."""

from __future__ import annotations

import re

from albert.settings.fields import Settings, setting

_UNITS = {"MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}
_SIZE = re.compile(rf"(\d{{1,9}}(?:\.\d{{1,9}})?) ?({'|'.join(_UNITS)})")


def parse_size(text: str) -> int:
    """Returns the bytes of a size like "31.5 GiB" or "2MB"; raises a `ValueError` if none or 0."""
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * _UNITS[match[2]]) if match else 0
    if not size:
        raise ValueError(f"{text!r} is not a size; write it like 32GB ({', '.join(_UNITS)})")
    return size


class CheckSettings(Settings):
    """Options of the report of `albert check`."""

    bf16: bool = setting(
        False,
        "List the operations that --precision or TF_BF16_CONVERSION converts to bfloat16 or "
        "float16, and the rule for each. If neither is set, the list in bf16_config/ is used.",
    )
    device_memory: int | None = setting(
        None,
        "Memory of each card of the job's machine, such as 32GB, 94GiB or 24000MB, to compare with "
        "the memory of a training step.",
        parser=parse_size,
    )
    estimate: bool = setting(
        False,
        "Make the missing features, which the job reuses; train and predict a few batches, 3 of "
        "each or 5 minutes, in a temporary folder; and estimate how long the job takes.",
    )
    json: bool = setting(False, "Print JSON, for programs, instead of a table.")
