"""Runs the same computations on the CPU and on another device, and compares the results.

  albert compare-devices --device=hpu

Compares layer normalization, GELU and dropout, forward and backward, and some training steps of a
small ALBERT. The CPU uses float32. The device uses bfloat16 where TF_BF16_CONVERSION says so. The
exit code is 1 if a difference is more than 1% of the greatest value, or 5% with bfloat16.
"""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

from albert.core.errors import UserError, reporting
from albert.core.text import first_line
from albert.settings.fields import DEVICES, Settings, setting

# The help does not need TensorFlow.
if TYPE_CHECKING:
    import numpy as np

# The greatest difference to accept, relative to the greatest value.
_TOLERANCE, _TOLERANCE_BFLOAT16 = 0.01, 0.05


class CompareDevicesSettings(Settings):
    """The device to compare."""

    device: str = setting("auto", "Device to compare with the CPU.", choices=DEVICES)


SETTINGS = CompareDevicesSettings


def main(settings: CompareDevicesSettings) -> None:
    """Starts a process for each device, since a process can use only one, and compares."""
    from albert.devices import device
    from albert.precision import configuration
    from albert.preflight.device_values import relative_differences

    kind, reason = device.find(settings.device)
    print(f"comparing the CPU with: {kind} ({reason})", flush=True)
    if settings.device == "auto" and kind == "cpu":
        raise UserError("found no device except the CPU; pass --device to see why one is missing")
    device_values = values_of(settings.device, {})
    # A bfloat16 configuration is for the device under test; the CPU's values stay float32.
    expected = values_of("cpu", {configuration.VARIABLE: "0"})
    tolerance = _TOLERANCE_BFLOAT16 if configuration.chosen() else _TOLERANCE
    report(relative_differences(expected, device_values), tolerance)


def report(differences: dict[str, float], tolerance: float) -> None:
    """Prints the differences; raises a `UserError` if one is NaN or greater than the tolerance."""
    # `not <=` instead of `>`, so that NaN fails: every comparison with it is false.
    failed = [name for name, difference in differences.items() if not difference <= tolerance]
    for name, difference in differences.items():
        print(f"{'FAILS' if name in failed else '':<6}{name:<32}{difference:.2e}")
    if failed:
        names = ", ".join(failed)
        raise UserError(f"more than {tolerance:g} of the greatest value: {names}")
    print("the devices agree")


def values_of(kind: str, environment: dict[str, str]) -> dict[str, np.ndarray]:
    """Returns the values that a device computes, by name, in a process with its own TensorFlow.

    Raises a `UserError` if an operation fails, or the process ends.
    """
    with reporting("/dev/shm cannot be written"):
        executor = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    with executor as pool:
        try:
            return pool.submit(_compute, kind, environment).result()
        except BrokenProcessPool as e:
            raise UserError(f"the process with --device={kind} has crashed; see above") from e


def _compute(kind: str, environment: dict[str, str]) -> dict[str, np.ndarray]:
    os.environ.update(environment)
    import tensorflow as tf2

    from albert.cli.lifecycle import quieten_tensorflow
    from albert.preflight.device_values import compute_values

    quieten_tensorflow()
    try:
        return compute_values(kind)
    # Such an error cannot go to another process, because it has an operation of this one.
    except tf2.errors.OpError as e:
        raise UserError(f"--device={kind}: {first_line(e)}") from None
