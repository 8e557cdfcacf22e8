"""The choice of the engine and the precision, and answers in bfloat16."""

import importlib.machinery
import logging
import sys
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.core.errors import FlagError, UserError
from albert.devices import machine
from albert.inference import load_model
from albert.precision import configuration
from albert.precision.configuration import VARIABLE
from albert.prediction.engine import choose_engine, choose_precision
from albert.settings.engines import AUTO, OPENVINO, TENSORFLOW
from albert.tasks.classification.head import make_head

AMX = ("AVX2", "AVX-512", "AVX512_BF16", "AMX")


def test_the_variable_decides_before_the_processor(monkeypatch, on_device):
    """`tests/devices/test_machine.py` has the processors."""
    monkeypatch.setattr(machine, "find_processor", lambda: machine.Cpu("AMD", AMX))
    monkeypatch.setenv(VARIABLE, "0")
    assert [choose_precision(name) for name in ("auto", "bfloat16")] == ["float32", "bfloat16"]
    monkeypatch.setenv(VARIABLE, "basic")
    assert choose_precision("auto") == "bfloat16"
    with pytest.raises(FlagError, match="--precision=float32 contradicts TF_BF16_CONVERSION=basic"):
        choose_precision("float32")
    monkeypatch.delenv(VARIABLE)
    assert choose_precision("auto") == "bfloat16"
    on_device("gpu")
    assert choose_precision("auto") == "float32"
    on_device("cpu")
    monkeypatch.setattr(machine, "find_processor", lambda: machine.Cpu("AMD", AMX[:2]))
    with pytest.raises(FlagError, match="neither AVX512_BF16 nor AMX; pass --precision=float32"):
        choose_precision("bfloat16")


def test_auto_is_openvino_where_it_can_compute(monkeypatch, on_device, log):
    shipped = configuration.load("1")
    monkeypatch.setattr(machine, "find_processor", lambda: machine.Cpu("AMD", AMX))
    on_device("cpu")
    assert [choose_engine(AUTO, low) for low in (None, shipped)] == [OPENVINO, OPENVINO]
    assert choose_engine(TENSORFLOW, None) == TENSORFLOW
    in_float16 = shipped._replace(dtype=tf.float16)
    for low in (configuration.load("basic"), in_float16):
        assert choose_engine(AUTO, low) == TENSORFLOW
    monkeypatch.setattr(machine, "find_processor", lambda: machine.Cpu("AMD", AMX[:2]))
    assert choose_engine(AUTO, shipped) == TENSORFLOW
    on_device("gpu")
    assert choose_engine(AUTO, None) == TENSORFLOW
    assert not log(logging.WARNING)


def test_without_a_working_openvino_auto_is_tensorflow(monkeypatch, on_device, log, tmp_path):
    """A broken one is a warning, a missing one is not. A model in int8 needs it."""
    on_device("cpu")
    broken = importlib.machinery.ModuleSpec("openvino", None)
    for module, level in ((None, logging.INFO), (types.ModuleType("openvino"), logging.WARNING)):
        if module:
            module.__spec__ = broken
        monkeypatch.setitem(sys.modules, "openvino", module)
        monkeypatch.delitem(sys.modules, "albert.openvino.encoder", raising=False)
        assert choose_engine(AUTO, None) == TENSORFLOW
        assert any("Engine: tensorflow (" in line for line in log(level))
        with pytest.raises(UserError, match="pip install onnx==1.18.0 openvino"):
            choose_engine(AUTO, None, quantized="encoder.xml")


def test_an_encoder_that_openvino_cannot_compile_is_computed_by_tensorflow(
    monkeypatch, random_model, log
):
    def fail(*args):
        raise RuntimeError("no such\nprimitive")

    folder = random_model(make_head(2, 0.0), task="glue", task_name="own", labels=["a", "b"])
    texts = [("a b c d e", ""), ("f g", "")]
    expected = load_model(folder, TENSORFLOW, "float32").classify_all(texts)
    monkeypatch.setattr("albert.openvino.encoder.compile_model", fail)
    actual = load_model(folder, AUTO, "float32").classify_all(texts)
    (warning,) = log(logging.WARNING)
    assert "(no such primitive): TensorFlow computes it" in warning
    for one, other in zip(actual, expected, strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-6)


@pytest.mark.parametrize("engine", [TENSORFLOW, OPENVINO])
def test_a_model_answers_in_bfloat16(monkeypatch, random_model, engine):
    """Its results are close to those of float32, but not the same."""
    if engine == OPENVINO and not machine.find_processor().bfloat16()[0]:
        pytest.skip("need a processor with bfloat16 instructions")
    monkeypatch.setattr(machine, "find_processor", lambda: machine.Cpu("AMD", AMX))
    folder = random_model(make_head(2, 0.0), task="glue", task_name="own", labels=["a", "b"])
    texts = [(text, "") for text in ("a b c d e", "f g h a b c d", "c c c")]
    exact, rounded = (
        np.array([[*one.probabilities.values()] for one in model.classify_all(texts)])
        for model in (load_model(folder, engine, name) for name in ("float32", "bfloat16"))
    )
    np.testing.assert_allclose(rounded, exact, rtol=0, atol=0.02)
    assert (rounded != exact).any()
