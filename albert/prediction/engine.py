"""The choice of the engine and the precision of prediction, on this machine."""

from __future__ import annotations

import functools
import importlib.util
import logging
import os

from albert.core.errors import FlagError, UserError, optional
from albert.core.log import LOG
from albert.devices import device, machine
from albert.modeling import BertConfig, EncoderConfig
from albert.precision import configuration
from albert.precision.configuration import PrecisionConfig
from albert.settings.engines import AUTO, OPENVINO, TENSORFLOW


def choose_engine(requested: str, low: PrecisionConfig | None, quantized: str = "") -> str:
    """Chooses the engine of prediction, and logs it with the reason.

    `requested` is a value of --engine. "auto" is OpenVINO on a CPU, if it is installed and computes
    in the precision, otherwise TensorFlow. `low` is the list of operations in low precision, if
    any; `quantized` is the path of an encoder in int8, if any. Raises the errors of `check_engine`.
    """
    if requested == AUTO and not quantized:
        engine, why, level = _fastest_engine(low)
    else:
        engine, why, level = requested, "--engine", logging.INFO
        if requested == AUTO:
            engine, why = OPENVINO, "the encoder is in int8"
        check_engine(engine, low.dtype.name if low else "float32")
    _log_once(level, f"Engine: {engine} ({why})")
    return engine


@functools.cache
def _log_once(level: int, message: str) -> None:
    LOG.log(level, "%s", message)


def _fastest_engine(low: PrecisionConfig | None) -> tuple[str, str, int]:
    """Returns the engine of "auto", the reason, and the level at which to log it."""
    if device.kind() != "cpu":
        return TENSORFLOW, "OpenVINO computes on the CPU", logging.INFO
    if low and low.source not in (configuration.SHIPPED, configuration.SHIPPED_FOR_BERT):
        return TENSORFLOW, f"only it follows the list {low.source}", logging.INFO
    if not all(map(importlib.util.find_spec, ("onnx", "openvino"))):
        return TENSORFLOW, "OpenVINO is not installed", logging.INFO
    try:
        check_engine(OPENVINO, low.dtype.name if low else "float32")
    except FlagError as e:
        return TENSORFLOW, str(e), logging.INFO
    except UserError as e:
        return TENSORFLOW, str(e), logging.WARNING
    return OPENVINO, "the fastest on a CPU", logging.INFO


def check_engine(engine: str, precision: str) -> None:
    """Raises a `FlagError` if an engine does not fit, and a `UserError` if it is not installed.

    `precision` is the type of its products: "float32", "bfloat16" or "float16".
    """
    if engine != OPENVINO:
        return
    insist = f"--engine={engine} computes on the CPU in float32 or bfloat16: "
    if device.kind() != "cpu":
        raise FlagError(f"{insist}pass --device=cpu, or --engine={TENSORFLOW}")
    if precision == "float16":
        raise FlagError(f"{insist}pass another --precision, or --engine={TENSORFLOW}")
    check_native(precision)
    with optional("onnx==1.18.0", "openvino", why=f"--engine={engine}: "):
        import albert.openvino.encoder  # noqa: F401


def check_native(precision: str) -> None:
    """Raises a `FlagError` if this processor would have to emulate a type."""
    has_bfloat16, why = machine.find_processor().bfloat16()
    if precision == "bfloat16" and device.kind() == "cpu" and has_bfloat16 is False:
        raise FlagError(f"--precision=bfloat16: {why}; pass --precision=float32")


def precision_list(config: EncoderConfig) -> str:
    """Returns the path of a model's list of operations in low precision."""
    is_bert = isinstance(config, BertConfig)
    return configuration.SHIPPED_FOR_BERT if is_bert else configuration.SHIPPED


def choose_precision(requested: str) -> str:
    """Returns the type of the products of a loaded model, "float32" or "bfloat16", and logs it.

    `requested` is that, or "auto" for the choice of `TF_BF16_CONVERSION`, and without it for the
    fastest. Raises a `FlagError` if the processor lacks the type, or the variable contradicts it.
    """
    variable = os.environ.get(configuration.VARIABLE)
    if requested == AUTO and variable is None:
        precision, why = fastest_precision()
    else:
        named = configuration.chosen(None if requested == AUTO else requested)
        precision = "float32" if named is None else named.dtype.name
        why = "--precision" if requested != AUTO else configuration.VARIABLE
        check_native(precision)
    LOG.info("Precision: %s (%s)", precision, why)
    return precision


def fastest_precision() -> tuple[str, str]:
    """Returns the type in which this device predicts fastest, and the reason."""
    if device.kind() != "cpu":
        return "float32", "the precision without --precision"
    return machine.find_processor().fastest()
