"""Models in ONNX: ONNX Runtime computes with them what this project computes."""

import shutil
import sys

import numpy as np
import onnxruntime
import pytest

from albert.cli import convert as command
from albert.convert import convert
from albert.convert.onnx_graph import to_onnx
from albert.convert.settings import ConvertSettings
from albert.core.errors import FlagError, UserError
from albert.onnx import graph
from tests.helpers import models
from tests.helpers.files import settings_of

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
HEADS = ("", "ForQuestionAnswering", "ForSequenceClassification", "ForTokenClassification")


def run(folder, inputs) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    named = {n: value.astype(np.int64) for n, value in zip(INPUTS, inputs, strict=True)}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, named), strict=True))


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("family", models.CONFIGS)
def test_outputs_are_those_of_the_checkpoint(family, head, tmp_path):
    """Also for another batch size and length; masked tokens change nothing."""
    act = models.HEADS[head]
    expected = models.make_checkpoint(tmp_path / "from", family, head, hidden_act=act)
    names = to_onnx(str(tmp_path / "from"), str(tmp_path / "to"), ConvertSettings())
    assert names == list(expected)
    actual = run(tmp_path / "to", models.make_inputs())
    # The second row has nine real tokens.
    short = run(tmp_path / "to", [value[:2, :9] for value in models.make_inputs()])
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert actual[name].dtype == value.dtype
        np.testing.assert_allclose(actual[name], value, rtol=0, atol=1e-4, err_msg=name)
        row = value[1:2, :9] if value.shape[1] == 15 else value[1:2]
        np.testing.assert_allclose(short[name][1:], row, rtol=0, atol=1e-4)


def test_the_command_writes_a_folder_with_tokenizer_and_configuration(tmp_path, log):
    models.make_checkpoint(tmp_path / "from", "bert", "ForQuestionAnswering")
    paths = [str(tmp_path / name) for name in ("from", "to")]
    command.main((settings_of(ConvertSettings, "--to=onnx"), paths))
    assert log()[-1] == f"{tmp_path}/to: a model with the outputs start_logits, end_logits"
    names = {path.name for path in (tmp_path / "to").iterdir()}
    assert names == {"model.onnx", "config.json", "tokenizer_config.json", "vocab.txt"}
    convert.to_transformers(paths[0], str(tmp_path / "there"), ConvertSettings())
    with pytest.raises(FlagError, match="--to=onnx is for a checkpoint, and .*there is a folder"):
        command.main((settings_of(ConvertSettings, "--to=onnx"), [str(tmp_path / "there"), "x"]))


def test_what_cannot_be_written_is_an_error(tmp_path, monkeypatch):
    source, target = tmp_path / "from", tmp_path / "to"
    models.make_checkpoint(source, "albert", "v2")
    with pytest.raises(UserError, match="has a head for SQuAD 2.0, which .* with --export_dir"):
        to_onnx(str(source), str(target), ConvertSettings())
    shutil.rmtree(source)
    models.make_checkpoint(source, "bert", "")
    with monkeypatch.context() as patch:
        patch.setattr(graph, "MOST_BYTES", 1000)
        with pytest.raises(UserError, match="more than the 2 GB that fit in a model of ONNX"):
            to_onnx(str(source), str(target), ConvertSettings())
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "onnx", None)
        for name in ("albert.onnx.graph", "albert.convert.onnx_graph"):
            patch.delitem(sys.modules, name)
        request = settings_of(ConvertSettings, "--to=onnx"), [str(source), str(target)]
        with pytest.raises(UserError, match="the package onnx is missing: run `pip install onnx"):
            command.main(request)
    assert not target.exists()
