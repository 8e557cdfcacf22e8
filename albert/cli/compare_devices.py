"""Computes the same on the CPU and on another device, and compares the values.

  albert compare-devices --device=hpu

Layer normalization, GELU and dropout, forward and backward, and some training steps of a small
ALBERT. The CPU computes in float32; where TF_BF16_CONVERSION is set, the device computes as that
says. Exit code 1 if a difference is greater than --tolerance.
"""

from __future__ import annotations

from absl import flags

from albert.cli import command_line
from albert.cli.commands import Work
from albert.settings.flags import DEVICES

WORK = Work("albert.commands.compare_devices")


def define_flags() -> None:
    """Defines which device to compare, and how far it may be off."""
    flags.DEFINE_enum("device", "auto", DEVICES, "What to compare with the CPU.")
    flags.DEFINE_float(
        "tolerance",
        0.01,
        "Greatest difference, as a part of the greatest value. A device that multiplies matrices "
        "in bfloat16 needs some 0.05.",
        lower_bound=0.0,
    )
    flags.DEFINE_string(
        "values_file", None, "Write this device's values there and compare nothing."
    )


def parse(argv: list[str]) -> list[str]:
    """Parses the flags; returns what is left of the command line."""
    define_flags()
    return command_line.parse(argv, __doc__)
