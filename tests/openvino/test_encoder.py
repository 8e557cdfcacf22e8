"""The encoder that OpenVINO computes: its states are those of TensorFlow's."""

import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from onnx import TensorProto, helper
from openvino import Core

from albert import modeling
from albert.core.errors import FlagError
from albert.openvino.encoder import OpenVinoEncoder, compile_model
from albert.prediction.engine import check_engine
from albert.settings.engines import OPENVINO
from tests.helpers import models
from tests.helpers.running import run


@pytest.mark.parametrize("act", ["gelu", "gelu_erf"])
@pytest.mark.parametrize("family", models.CONFIGS)
def test_states_are_those_of_tensorflow(family, act, monkeypatch):
    """Weights of any size: the limit of a message of ONNX is not one of OpenVINO."""
    monkeypatch.setattr("albert.onnx.graph.MOST_BYTES", 1000)
    monkeypatch.delattr("albert.openvino.encoder._TensorFlowRequest")
    values = {**models.CONFIGS[family], "hidden_act": act}
    kind = modeling.BertConfig if family == "bert" else modeling.AlbertConfig
    config, inputs = kind.from_dict(values), models.make_inputs()
    inputs[1][0, 3:5] = 0
    positions = np.array([[0, 2, 8]], "i4")
    with tf.Graph().as_default(), tf.Session() as session:
        expected = modeling.Encoder(config, False, *map(tf.constant, inputs))
        variables = {v.op.name: v for v in tf.trainable_variables()}
        encoders = []
        for options in ({}, {"positions": tf.constant(positions), "at_once": 2}):
            with tf.variable_scope(tf.get_variable_scope(), reuse=True):
                encoders.append(OpenVinoEncoder(config, *map(tf.constant, inputs), **options))
        assert variables == {v.op.name: v for v in tf.trainable_variables()}
        whole, chosen = encoders
        rng = np.random.default_rng(1)
        for _ in range(2):
            for name, variable in variables.items():
                value = rng.normal(0, 0.2, variable.shape) + name.endswith("gamma")
                variable.load(value.astype("f4"), session)
            for encoder in encoders:
                encoder.hook.after_create_session(session, None)
            states = session.run(expected.get_sequence_output())
            pairs = (
                (whole.get_sequence_output(), states),
                (whole.get_pooled_output(), session.run(expected.get_pooled_output())),
                (chosen.get_sequence_output(), states[:, positions[0]]),
            )
            for tensor, value in pairs:
                np.testing.assert_allclose(session.run(tensor), value, rtol=0, atol=2e-5)
            with ThreadPoolExecutor(3) as pool:
                found = list(pool.map(lambda _: chosen.hook.states(*inputs), range(6)))
            np.testing.assert_allclose(found, [states] * 6, rtol=0, atol=2e-5)
            assert whole.get_embedding_table() is expected.get_embedding_table()


@pytest.mark.slow
def test_loading_keeps_few_copies_of_the_weights(transformers_folder):
    """One each of the file, of TensorFlow and of OpenVINO, and one that is passed to it."""
    folder = transformers_folder(hidden_size=256, intermediate_size=80_000, hidden_act="relu")
    program = """if True:
        import resource, sys, albert
        from albert.openvino import encoder
        def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        before = peak()
        albert.load(sys.argv[1], engine="openvino", precision="float32").encode(["a"])
        print(peak() - before)"""
    grown = run([sys.executable, "-c", program, folder]).stdout.split()[-1]
    assert int(grown) * 1024 / (2 * 256 * 80_000 * 4) < 5


def test_signals_work_after_another_thread_has_dropped_an_encoder():
    """OpenVINO gives the thread that compiles a stack for signals, and would free it."""
    node = helper.make_node("Identity", ["x"], ["y"])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([node], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    compiled = [compile_model(Core().read_model(model.SerializeToString()), "float32")]
    with ThreadPoolExecutor(1) as pool:
        pool.submit(compiled.clear).result()
    received = []
    before = signal.signal(signal.SIGUSR2, lambda *arguments: received.append(1))
    signal.raise_signal(signal.SIGUSR2)
    signal.signal(signal.SIGUSR2, before)
    assert received and not compiled


def test_an_engine_that_does_not_fit_is_an_error(on_device):
    """`tests/prediction/test_engine.py` has processors and packages."""
    check_engine(OPENVINO, "float32")
    with pytest.raises(FlagError, match="in float32 or bfloat16: pass another --precision, or --e"):
        check_engine(OPENVINO, "float16")
    on_device("gpu")
    with pytest.raises(FlagError, match="in float32 or bfloat16: pass --device=cpu, or --engine"):
        check_engine(OPENVINO, "float32")
