"""Folders of models, and folders that hold none."""

import json
import shutil

import pytest

from albert.core.errors import UserError
from albert.inference import load_model
from albert.inference.folders import open_folder


@pytest.fixture
def model(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "moved" / "saved_model" / "1")


def test_an_exported_model_needs_no_other_file(model, squad_dir):
    folder = open_folder(str(model))
    assert folder.checkpoint == str(model / "variables" / "variables")
    config = json.loads((squad_dir / "albert.json").read_text())
    assert folder.config.to_dict().items() >= config.items()
    serialized = folder.tokenizer.sp_model.serialized_model_proto()
    assert serialized == (squad_dir / "spm.model").read_bytes()
    expected = {"task": "squad-1.1", "do_lower_case": True, "max_seq_length": 64, "doc_stride": 16}
    assert folder.description.items() >= expected.items()
    change(model, do_lower_case=False)
    assert open_folder(str(model)).tokenizer.do_lower_case is False


def test_a_parent_folder_serves_one_model_and_a_run_the_best_or_newest(model, trained, tmp_path):
    for above in (model.parent, model.parent.parent):
        assert open_folder(str(above)).path == str(model)
    shutil.copytree(model, model.parent / "2")
    fails(model.parent, "has several models; pass one of them", str(model.parent / "2"))
    assert open_folder(str(trained)).checkpoint == str(trained / "model.ckpt-best")
    ignored = shutil.ignore_patterns("*best*")
    folder = shutil.copytree(trained, tmp_path / "out", ignore=ignored)
    assert open_folder(str(folder)).checkpoint == str(folder / "model.ckpt-12")


def change(model, **values) -> None:
    path = model / "assets.extra" / "model.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def fails(path, *parts: str) -> None:
    with pytest.raises(UserError) as caught:
        load_model(str(path))
    message = str(caught.value)
    assert "\n" not in message and all(part in message for part in (str(path), *parts)), message


def test_a_folder_without_a_model_is_an_error(tmp_path):
    fails(tmp_path / "none", "does not exist")
    fails(tmp_path, "has no model; pass a folder that --export_dir or --output_dir has written")
    (tmp_path / "file").touch()
    fails(tmp_path / "file", "is a file")


def test_a_model_of_an_earlier_version_is_an_error(model, trained, tmp_path):
    shutil.rmtree(model / "assets.extra")
    fails(model, "has no assets.extra/model.json", "export the model again")
    fails(model.parent, "export the model again")
    shutil.copytree(trained, tmp_path / "out", ignore=shutil.ignore_patterns("assets.extra"))
    fails(tmp_path / "out", "has no assets.extra/model.json", "which trains nothing")


def test_a_missing_file_or_a_description_that_does_not_fit_is_an_error(model):
    for missing, part in (
        ("variables/variables.data-00000-of-00001", "damaged or incomplete"),
        ("assets.extra/config.json", "cannot be read"),
        ("variables/variables.index", "has no weights"),
        ("assets.extra/spm.model", "has no tokenizer"),
    ):
        content = (model / missing).read_bytes()
        (model / missing).unlink()
        fails(model, part)
        (model / missing).write_bytes(content)
    change(model, task="squad-2.0", start_n_top=5, end_n_top=5, no_answer_threshold=None)
    fails(model, "does not match the model", "start_logits")
    change(model, task="pretraining")
    fails(model, "has a model for pretraining, which cannot answer or classify; supported tasks")
    change(model, max_seq_length=10**6)
    fails(model, "max_seq_length of 1000000, but the model takes")
    description = model / "assets.extra" / "model.json"
    for text in ("", "[]", "{}", '{"task": 3}'):
        description.write_text(text)
        fails(model, "model.json")
    description.write_text('{"task": "squad-1.1", "max_seq_length": 64}')
    fails(model, "model.json has no")
