"""Weights to `transformers` and back: equal outputs there, and equal names and bits here."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from albert.convert.convert import ConversionOptions, from_transformers, to_transformers
from albert.tokenization import FullTokenizer
from tests.helpers import models


@pytest.fixture(scope="module", autouse=True)
def transformers(torch):
    import transformers

    return transformers


def compare(actual: dict, expected: dict) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert np.max(np.abs(value - actual[name])) < 1e-4, name
        assert np.std(value) > 1e-3


@pytest.mark.parametrize("head, act", models.HEADS.items())
@pytest.mark.parametrize("family", models.CONFIGS)
def test_weights_return_from_transformers_unchanged(family, head, act, tmp_path):
    """From the folder written here, and from the one that `transformers` saves after reading it."""
    original, there, saved = (tmp_path / name for name in ("from", "there", "saved"))
    expected = models.make_checkpoint(original, family, head, hidden_act=act)
    is_choice = head == "ForMultipleChoice"
    kind = models.class_of(family, head)
    options = ConversionOptions(multiple_choice=is_choice)
    assert to_transformers(str(original), str(there), options) == kind.__name__
    model, report = kind.from_pretrained(there, output_loading_info=True)
    assert not report["missing_keys"] and not report["mismatched_keys"]
    assert model.config.hidden_act == {"gelu": "gelu_new", "gelu_erf": "gelu"}[act]
    compare(models.compute_there(model, head), expected)

    model.save_pretrained(saved)
    for folder in (there, saved):
        back, again = tmp_path / f"from-{folder.name}", tmp_path / f"again-{folder.name}"
        from_transformers(str(folder), str(back))
        config = json.loads((back / f"{family}_config.json").read_text())
        assert {**models.CONFIGS[family], "hidden_act": act}.items() <= config.items()
        options = ConversionOptions(vocab_file=str(original / "assets.extra/vocab.txt"))
        to_transformers(str(back), str(again), options._replace(multiple_choice=is_choice))
        models.same_arrays(*(load_file(path / "model.safetensors") for path in (again, folder)))
    models.same_arrays(
        *(models.arrays_of(path / "model.ckpt") for path in (tmp_path / "from-there", original))
    )
    np.testing.assert_equal(models.compute(saved / "config.json", saved, head), expected)


def assert_comes_back(folder):
    from_transformers(str(folder / "there"), str(folder / "back"))
    actual, expected = (
        models.arrays_of(folder / f"{name}/model.ckpt") for name in ("back", "from")
    )
    models.same_arrays(actual, expected)


def test_the_head_of_squad_v2_is_kept(tmp_path):
    models.make_checkpoint(tmp_path / "from", "albert", "v2")
    there = tmp_path / "there"
    assert to_transformers(str(tmp_path / "from"), str(there), ConversionOptions()) == "AlbertModel"
    assert "no counterpart in `transformers`" in " ".join((there / "README.md").read_text().split())
    names = load_file(there / "model.safetensors").keys()
    own = {name for name in names if not name.startswith("albert.")}
    assert len(own) == 11 and "answer_class.dense_1.weight" in own
    _, report = models.class_of("albert", "").from_pretrained(there, output_loading_info=True)
    assert not report["missing_keys"] and set(report["unexpected_keys"]) == own
    assert_comes_back(tmp_path)


def test_embeddings_as_wide_as_the_encoder_convert(tmp_path):
    """`transformers` has a layer between them, which then is the identity."""
    changes = {"embedding_size": 24, "inner_group_num": 2, "num_hidden_layers": 4}
    expected = models.make_checkpoint(tmp_path / "from", "albert", "", **changes)
    to_transformers(str(tmp_path / "from"), str(tmp_path / "there"), ConversionOptions())
    model = models.class_of("albert", "").from_pretrained(tmp_path / "there")
    compare(models.compute_there(model, ""), expected)
    assert_comes_back(tmp_path)


def test_the_tokenizer_gives_the_same_pieces_in_transformers(trained, tmp_path, transformers):
    there = tmp_path / "there"
    to_transformers(str(trained), str(there), ConversionOptions())
    theirs = transformers.AlbertTokenizer.from_pretrained(there)
    text = "Where does the River Ambrus, of 1,200 km, rise?"
    (pieces,) = FullTokenizer(None, True, str(there / "spiece.model")).encode([text])
    assert theirs(text, add_special_tokens=False)["input_ids"] == pieces and len(pieces) > 9
