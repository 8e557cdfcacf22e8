"""Weights to `transformers` and back: its outputs, and the same names and bits again."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.helpers.models import (
    CONFIGS,
    HEADS,
    arrays_of,
    class_of,
    compute,
    compute_there,
    make_checkpoint,
    same_arrays,
)
from weights.convert import Options, from_transformers, to_transformers

FAMILIES = ["albert", "bert"]
_THEIRS = {"gelu": "gelu_new", "gelu_erf": "gelu"}


@pytest.fixture(scope="module", autouse=True)
def transformers():
    pytest.importorskip("torch", reason="torch is not installed")
    return pytest.importorskip("transformers")


def compare(found: dict, expected: dict) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert np.max(np.abs(value - found[name])) < 1e-4, name
        assert np.std(value) > 1e-3


@pytest.mark.parametrize("head, act", HEADS.items())
@pytest.mark.parametrize("family", FAMILIES)
def test_there_and_back(family, head, act, tmp_path):
    expected = make_checkpoint(tmp_path / "from", family, head, hidden_act=act)
    there = tmp_path / "there"
    is_choice = head == "ForMultipleChoice"
    found = to_transformers(str(tmp_path / "from"), str(there), Options(multiple_choice=is_choice))
    kind = class_of(family, head)
    assert found == kind.__name__
    model, report = kind.from_pretrained(there, output_loading_info=True)
    assert not report["missing_keys"] and not report["mismatched_keys"]
    assert model.config.hidden_act == _THEIRS[act]
    compare(compute_there(model, head), expected)

    from_transformers(str(there), str(tmp_path / "back"))
    same_arrays(arrays_of(tmp_path / "back/model.ckpt"), arrays_of(tmp_path / "from/model.ckpt"))
    config = json.loads((tmp_path / f"back/{family}_config.json").read_text())
    assert {**CONFIGS[family], "hidden_act": act}.items() <= config.items()
    same = compute(tmp_path / f"back/{family}_config.json", there, head)
    np.testing.assert_equal(same, expected)


@pytest.mark.parametrize("head, act", HEADS.items())
@pytest.mark.parametrize("family", FAMILIES)
def test_here_and_back(family, head, act, tmp_path, transformers):
    config = getattr(transformers, f"{family.capitalize()}Config")(
        **{**CONFIGS[family], "hidden_act": _THEIRS[act]},
        num_labels=3 if head == "ForSequenceClassification" else 2,
    )
    model = class_of(family, head)(config)
    there, here = tmp_path / "there", tmp_path / "here"
    model.save_pretrained(there)
    expected = compute_there(model, head)
    from_transformers(str(there), str(here))
    compare(compute(here / f"{family}_config.json", here, head), expected)
    # Without a conversion.
    compare(compute(there / "config.json", there, head), expected)

    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[UNK]\n")
    options = Options(None, None, str(vocabulary), None, head == "ForMultipleChoice")
    to_transformers(str(here), str(tmp_path / "back"), options)
    files = (folder / "model.safetensors" for folder in (tmp_path / "back", there))
    same_arrays(*map(load_file, files))
    again = class_of(family, head).from_pretrained(tmp_path / "back")
    compare(compute_there(again, head), expected)


def test_the_head_of_squad_v2_stays(tmp_path):
    make_checkpoint(tmp_path / "from", "albert", "v2")
    there = tmp_path / "there"
    assert to_transformers(str(tmp_path / "from"), str(there), Options()) == "AlbertModel"
    assert "no counterpart in `transformers`" in " ".join((there / "README.md").read_text().split())
    names = load_file(there / "model.safetensors").keys()
    own = {name for name in names if not name.startswith("albert.")}
    assert len(own) == 11 and "answer_class.dense_1.weight" in own
    _, report = class_of("albert", "").from_pretrained(there, output_loading_info=True)
    assert not report["missing_keys"] and set(report["unexpected_keys"]) == own
    from_transformers(str(there), str(tmp_path / "back"))
    same_arrays(arrays_of(tmp_path / "back/model.ckpt"), arrays_of(tmp_path / "from/model.ckpt"))


def test_embeddings_as_wide_as_the_encoder(tmp_path):
    """There is a layer between them there, which then does nothing."""
    expected = make_checkpoint(
        tmp_path / "from", "albert", "", embedding_size=24, inner_group_num=2, num_hidden_layers=4
    )
    there = tmp_path / "there"
    to_transformers(str(tmp_path / "from"), str(there), Options())
    compare(compute_there(class_of("albert", "").from_pretrained(there), ""), expected)
    from_transformers(str(there), str(tmp_path / "back"))
    same_arrays(arrays_of(tmp_path / "back/model.ckpt"), arrays_of(tmp_path / "from/model.ckpt"))
