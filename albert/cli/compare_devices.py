"""Computes the same on the CPU and on another device, and compares the values.

  albert compare-devices --device=hpu

Layer normalization, GELU and dropout, forward and backward, and some training steps of a small
ALBERT. The CPU computes in float32; where TF_BF16_CONVERSION is set, the device computes as that
says. Exit code 1 if a difference is greater than --tolerance.
"""

from __future__ import annotations

from albert.cli import command_line
from albert.cli.main import EntryPoint
from albert.settings.fields import DEVICES, Settings, setting

ENTRY_POINT = EntryPoint("albert.commands.compare_devices")


class CompareDevicesSettings(Settings):
    """Which device to compare, and how far it may be off."""

    device: str = setting("auto", "What to compare with the CPU.", choices=DEVICES)
    tolerance: float = setting(
        0.01,
        "Greatest difference, as a part of the greatest value. A device that multiplies matrices "
        "in bfloat16 needs some 0.05.",
        lower=0.0,
    )
    values_file: str | None = setting(None, "Write this device's values there and compare nothing.")


def parse(argv: list[str]) -> CompareDevicesSettings:
    """Returns the settings of a command line."""
    command_line.parse(argv, __doc__, CompareDevicesSettings)
    return CompareDevicesSettings.from_flags()
