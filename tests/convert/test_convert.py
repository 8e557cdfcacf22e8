"""Weights to `transformers` and back, the tokenizer, and a full disk."""

import json
import resource
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

from albert.convert.convert import from_transformers, to_transformers
from albert.convert.settings import ConvertSettings
from albert.core.errors import FlagError, UserError
from albert.core.files import content_of
from albert.inference import load_model
from albert.tasks.classification.head import make_head
from albert.tokenization import FullTokenizer
from tests.helpers import models
from tests.helpers.files import limited
from tests.helpers.serving import LABELS, model_of


def compare(actual: dict, expected: dict) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert np.max(np.abs(value - actual[name])) < 1e-4, name
        assert np.std(value) > 1e-3


@pytest.mark.parametrize("head, act", models.HEADS.items())
@pytest.mark.parametrize("family", models.CONFIGS)
def test_weights_return_from_transformers_unchanged(family, head, act, tmp_path, torch):
    """From the folder written here, and from the one that `transformers` saves after reading it."""
    original, there, saved = (tmp_path / name for name in ("from", "there", "saved"))
    expected = models.make_checkpoint(original, family, head, hidden_act=act)
    if head == "ForMultipleChoice":
        # Only the labels tell it from regression.
        about = {"task": "race", "labels": ["A", "B", "C"]}
        (original / "assets.extra/model.json").write_text(json.dumps(about))
    kind = models.class_of(family, head)
    assert to_transformers(str(original), str(there), ConvertSettings()) == kind.__name__
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
        options = ConvertSettings(vocab_file=str(original / "assets.extra/vocab.txt"))
        to_transformers(str(back), str(again), options)
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


def test_the_head_of_squad_v2_is_kept(tmp_path, torch):
    models.make_checkpoint(tmp_path / "from", "albert", "v2")
    there = tmp_path / "there"
    assert to_transformers(str(tmp_path / "from"), str(there), ConvertSettings()) == "AlbertModel"
    names = load_file(there / "model.safetensors").keys()
    own = {name for name in names if not name.startswith("albert.")}
    assert len(own) == 11 and "answer_class.dense_1.weight" in own
    _, report = models.class_of("albert", "").from_pretrained(there, output_loading_info=True)
    assert not report["missing_keys"] and set(report["unexpected_keys"]) == own
    assert_comes_back(tmp_path)


def test_embeddings_as_wide_as_the_encoder_convert(tmp_path, torch):
    """`transformers` has a layer between them, which then is the identity."""
    changes = {"embedding_size": 24, "inner_group_num": 2, "num_hidden_layers": 4}
    expected = models.make_checkpoint(tmp_path / "from", "albert", "", **changes)
    to_transformers(str(tmp_path / "from"), str(tmp_path / "there"), ConvertSettings())
    model = models.class_of("albert", "").from_pretrained(tmp_path / "there")
    compare(models.compute_there(model, ""), expected)
    assert_comes_back(tmp_path)


def test_the_tokenizer_gives_the_same_pieces_in_transformers(trained, tmp_path, torch):
    import transformers

    there = tmp_path / "there"
    to_transformers(str(trained), str(there), ConvertSettings())
    theirs = transformers.AlbertTokenizer.from_pretrained(there)
    text = "Where does the River Ambrus, of 1,200 km, rise?"
    (pieces,) = FullTokenizer(None, True, str(there / "spiece.model")).encode([text])
    assert theirs(text, add_special_tokens=False)["input_ids"] == pieces and len(pieces) > 9


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    models.make_checkpoint(folder, "albert", "")
    (folder / "assets.extra/spm.model").write_bytes(b"pieces")
    (folder / "assets.extra/model.json").write_text('{"task": "race", "do_lower_case": false}')
    content = content_of(str(folder / "assets.extra/spm.model"))
    (folder / "run.json").write_text(json.dumps({"settings": {"spm_model_file": content}}))
    return folder


def convert(run, **options) -> tuple[dict, dict]:
    there = run.parent / "there"
    to_transformers(str(run), str(there), ConvertSettings.of(**options))
    config = json.loads((there / "tokenizer_config.json").read_text())
    files = {name: there / name for name in ("spiece.model", "vocab.txt")}
    return {name: path.read_bytes() for name, path in files.items() if path.exists()}, config


def test_conversions_of_one_model_are_the_same_bytes(run):
    """Metadata with two keys would have a random order."""
    contents = set()
    for _ in range(4):
        convert(run, do_lower_case=False, albert_config_file=str(run / "albert_config.json"))
        folder = run.parent / "there"
        contents.add((folder / "model.safetensors").read_bytes())
        shutil.rmtree(folder)
    (content,) = contents
    size = int.from_bytes(content[:8], "little")
    assert {*json.loads(content[8 : 8 + size])["__metadata__"]} == {"format", "global_step"}


def test_the_runs_vocabulary_becomes_the_tokenizer(run):
    for path in ("run.json", "assets.extra/spm.model"):
        (run / path).unlink()
    files, config = convert(
        run, do_lower_case=True, albert_config_file=str(run / "albert_config.json")
    )
    assert files == {"vocab.txt": b"[UNK]\n[CLS]\n[SEP]\n"}
    assert (config["tokenizer_class"], config["do_lower_case"]) == ("BertTokenizer", True)


def test_only_the_runs_tokenizer_is_accepted(run, tmp_path):
    files, config = convert(run)
    assert files == {"spiece.model": b"pieces"}
    assert (config["tokenizer_class"], config["do_lower_case"]) == ("AlbertTokenizer", False)
    shutil.rmtree(run.parent / "there")
    other = tmp_path / "other.model"
    other.write_bytes(b"others")
    with pytest.raises(UserError, match="was trained with another --spm_model_file"):
        convert(run, spm_model_file=str(other))
    other.write_bytes(b"pieces")
    assert convert(run, spm_model_file=str(other))[0] == {"spiece.model": b"pieces"}


def test_without_a_tokenizer_nothing_is_written(run):
    for path in (run / "assets.extra").iterdir():
        path.unlink()
    message = "--spm_model_file or --vocab_file is required: .*run/model"
    with pytest.raises(FlagError, match=message):
        convert(run)
    assert list(run.parent.iterdir()) == [run]
    # Faults of the target are reported first.
    (run.parent / "there").write_text("mine")
    with pytest.raises(UserError, match="there already exists"):
        convert(run)


@pytest.mark.parametrize("back", [False, True])
def test_a_full_disk_leaves_nothing(run, back):
    there, target = run.parent / "there", run.parent / "target"
    if back:
        convert(run)
    before = set(run.parent.iterdir())
    message = "^[^\n]*target cannot be written: [^\n]*File too large"
    with pytest.raises(UserError, match=message), limited(resource.RLIMIT_FSIZE, 1000):
        if back:
            from_transformers(str(there), str(target))
        else:
            to_transformers(str(run), str(target), ConvertSettings())
    assert set(run.parent.iterdir()) == before


@pytest.mark.parametrize(
    ("kind", "problem"),
    [("labels", None), ("number", "regression"), ("sets", "multi_label_classification")],
)
def test_a_classifier_keeps_its_labels_and_kind(random_model, tmp_path, kind, problem):
    run = model_of(random_model, kind)
    settings = ConvertSettings(albert_config_file=f"{run}/assets.extra/config.json")
    to_transformers(run, str(tmp_path / "there"), settings)
    config = json.loads((tmp_path / "there/config.json").read_text())
    assert config.get("problem_type") == problem
    assert [*config["id2label"].values()] == (["LABEL_0"] if kind == "number" else LABELS)
    assert load_model(str(tmp_path / "there")).labels == load_model(run).labels


def test_a_classifier_keeps_its_windows_on_long_texts(random_model, tmp_path):
    own = {"long_texts": "max", "doc_stride": 10}
    head = make_head(2, 0.0)
    run = random_model(head, task="glue", limits=None, labels=["a", "b"], **own)
    settings = ConvertSettings(albert_config_file=f"{run}/assets.extra/config.json")
    to_transformers(run, str(tmp_path / "there"), settings)
    from_transformers(str(tmp_path / "there"), str(tmp_path / "back"))
    for folder in (tmp_path / "there", tmp_path / "back"):
        model = load_model(str(folder))
        assert own.items() <= model.folder.description.items() and model.stride == 10
