"""Habana's TensorFlow bridge: requirements, loading and fused operations.

Only this module imports `habana_frameworks`. Without a driver, the bridge loads its operations and
then fails. Graphs with these operations can still be built, as the tests do.
"""

from __future__ import annotations

import glob
import importlib.metadata
import os
import sys
from typing import Any

import tensorflow as tf2
import tensorflow.compat.v1 as tf

from albert.core import estimators
from albert.core.errors import UserError

PACKAGE = "habana-tensorflow"
# The versions that the bridge's release on PyPI supports.
_PYTHON, _TENSORFLOW = (3, 10), "2.15.0"
_INSTALL = "install requirements-gaudi.txt in an environment of CPython 3.10"
_DRIVER_FILES = ("/sys/module/habanalabs", "/sys/class/accel/accel*/device/driver_ver")
# Newer drivers use the kernel's folder for accelerators of all vendors, in which only Gaudi cards
# have this type file. A container may see the type file of a card whose device it does not have.
_DEVICE_FILES = ("/dev/accel/accel[0-9]*", "/dev/hl[0-9]*")
_TYPE_FILE = "/sys/class/accel/{}/device/device_type"

_ops: Any = None


def installed_version(package: str = PACKAGE) -> str | None:
    """Returns the installed version of the bridge or another package; None without it."""
    installed = importlib.metadata.distributions(name=package)
    return next((distribution.version for distribution in installed), None)


def driver_version() -> str | None:
    """Returns the version of the habanalabs driver; None without a driver or if it is unknown."""
    for path in sorted(glob.glob("/sys/class/accel/accel*/device/driver_ver")):
        with open(path, encoding="ascii") as file:
            return file.readline().strip()
    return None


def count_cards() -> int:
    """Returns the number of Gaudi cards in this machine or container."""
    new, old = map(glob.glob, _DEVICE_FILES)
    return len(old) + sum(bool(glob.glob(_TYPE_FILE.format(os.path.basename(d)))) for d in new)


def why_unavailable() -> str | None:
    """Returns why no Gaudi card can be used here, and what to do; None if one can."""
    if sys.version_info[:2] != _PYTHON:
        python = ".".join(map(str, sys.version_info[:3]))
        return f"{PACKAGE} needs CPython 3.10, and this is {python}; {_INSTALL}"
    if installed_version() is None:
        return f"the package {PACKAGE} is not installed; {_INSTALL}"
    if tf.__version__ != _TENSORFLOW:
        return (
            f"{PACKAGE} {installed_version()} needs TensorFlow {_TENSORFLOW}, and this is "
            f"{tf.__version__}; {_INSTALL}"
        )
    if not any(map(glob.glob, _DRIVER_FILES)):
        return "the habanalabs driver is not loaded; see Habana's installation guide"
    if not count_cards():
        return "there is no Gaudi card, or this container does not see it"
    return None


def load() -> None:
    """Loads the bridge; raises a `UserError` if that fails. Call this before any graph is built."""
    try:
        load_operations()
    except (ImportError, AttributeError, RuntimeError, tf.errors.OpError) as e:
        raise UserError(f"{PACKAGE} cannot be loaded: {e}") from e
    from habana_frameworks.tensorflow import habana_device

    # Without this, TensorFlow reports that no memory of the card is in use.
    habana_device.enable_allocator_stats()


def load_operations() -> None:
    """Loads the bridge; its operations exist even after an `AttributeError` (without a driver)."""
    global _ops
    from habana_frameworks.tensorflow import habana_ops, load_habana_module

    # Legacy variables have no kernels on the device.
    tf.enable_resource_variables()
    try:
        load_habana_module()
    finally:
        if habana_ops.is_initialized and _ops is None:
            _ops = habana_ops
            tf.RegisterGradient("HabanaDropout")(_dropout_gradient)


def estimator_class() -> type[estimators.Estimator]:
    """Returns Habana's estimator, which places the iterator of the input on the device."""
    from habana_frameworks.tensorflow import HabanaEstimator

    return HabanaEstimator


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Applies layer normalization over the last axis, as one operation."""
    normalized, _, _ = _ops.habana_layer_norm(
        x=x,
        beta=beta,
        gamma=gamma,
        axes=tf2.make_tensor_proto([x.shape.ndims - 1]),
        epsilon=tf2.make_tensor_proto(epsilon, tf.float32),
    )
    return normalized


def gelu(x: tf.Tensor, approximate: bool = True) -> tf.Tensor:
    """Applies GELU as one operation, in its tanh form or its exact form."""
    return _ops.habana_gelu(x, approximate=approximate)[0]


def dropout(x: tf.Tensor, rate: float, seed: int, seed2: int) -> tf.Tensor:
    """Applies dropout as one operation; masks depend only on the seeds (0 and 0 for none)."""
    ratio = tf2.make_tensor_proto(rate, tf.float32)
    return _ops.habana_dropout(x, ratio=ratio, seed=seed, seed2=seed2)[0]


def _dropout_gradient(operation: tf.Operation, gradient: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
    """Computes the gradient with the bridge's operation, which the bridge does not register."""
    ratio = operation.get_attr("ratio")
    return _ops.habana_dropout_grad(x=gradient, mask=operation.outputs[1], ratio=ratio)
