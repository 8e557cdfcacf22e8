"""Runs the same computations on the CPU and on another device, and compares the results.

  albert compare-devices --device=hpu

Compares layer normalization, GELU and dropout, forward and backward, and some training steps of a
small ALBERT. The CPU uses float32. The device uses bfloat16 where TF_BF16_CONVERSION says so. The
exit code is 1 if a difference is greater than --tolerance.
"""

from __future__ import annotations

from albert.cli import command_line
from albert.cli.main import EntryPoint
from albert.settings.fields import DEVICES, Settings, setting

ENTRY_POINT = EntryPoint("albert.commands.compare_devices")


class CompareDevicesSettings(Settings):
    """The device to compare, and the tolerance."""

    device: str = setting("auto", "Device to compare with the CPU.", choices=DEVICES)
    tolerance: float = setting(
        0.01,
        "Greatest difference to accept, relative to the greatest value. A device that multiplies "
        "matrices in bfloat16 needs about 0.05.",
        lower=0.0,
    )
    values_file: str | None = setting(
        None, "Write this device's values to this file and compare nothing."
    )


def parse(argv: list[str]) -> CompareDevicesSettings:
    """Returns the settings of a command line."""
    command_line.parse(argv, __doc__, CompareDevicesSettings)
    return CompareDevicesSettings.from_flags()
