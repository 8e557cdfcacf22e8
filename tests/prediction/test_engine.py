"""The choice of the precision of a loaded model, and its answers in bfloat16."""

import numpy as np
import pytest

from albert.core.errors import FlagError
from albert.devices import machine
from albert.inference import load_model
from albert.precision.configuration import VARIABLE
from albert.prediction.engine import choose_precision
from albert.settings.engines import ENGINES, OPENVINO
from albert.tasks.glue.head import make_head

AMX = ("AVX2", "AVX-512", "AVX512_BF16", "AMX")


@pytest.mark.parametrize(
    ("model", "instructions", "expected"),
    [
        ("Intel(R) Xeon(R) 6", AMX, "bfloat16"),
        ("AMD EPYC", AMX[:3], "bfloat16"),
        ("Intel(R) Xeon(R) 6", AMX[:3], "float32"),
        ("AMD EPYC", AMX[:2], "float32"),
        ("", None, "float32"),
    ],
)
def test_auto_is_the_fastest_precision(monkeypatch, model, instructions, expected):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(machine, "find_processor", lambda: machine.Cpu(model, instructions))
    assert choose_precision("auto") == expected


def test_the_variable_decides_before_the_processor(monkeypatch, on_device):
    monkeypatch.setattr(machine, "find_processor", lambda: machine.Cpu("AMD", AMX))
    monkeypatch.setenv(VARIABLE, "0")
    assert [choose_precision(name) for name in ("auto", "bfloat16")] == ["float32", "bfloat16"]
    monkeypatch.setenv(VARIABLE, "basic")
    assert choose_precision("auto") == "bfloat16"
    with pytest.raises(FlagError, match="--precision=float32 contradicts TF_BF16_CONVERSION=basic"):
        choose_precision("float32")
    monkeypatch.delenv(VARIABLE)
    on_device("gpu")
    assert choose_precision("auto") == "float32"
    on_device("cpu")
    monkeypatch.setattr(machine, "find_processor", lambda: machine.Cpu("AMD", AMX[:2]))
    with pytest.raises(FlagError, match="neither AVX512_BF16 nor AMX; pass --precision=float32"):
        choose_precision("bfloat16")


@pytest.mark.parametrize("engine", ENGINES)
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
