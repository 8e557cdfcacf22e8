"""A prediction uses the model that was trained, or ends: what differs is named."""

from __future__ import annotations

import json
import shutil

import pytest
import tensorflow.compat.v1 as tf

from answering import load_model
from runtime.errors import FlagError, UserError
from runtime.flags import Settings
from runtime.training.recorded_model import check_weights
from runtime.training.run_flags import define_flags
from squad.flags import define_v1_flags, define_v2_flags
from squad.v1 import SquadV1Task
from squad.v2 import SquadV2Task
from tests.helpers.running import run
from tests.helpers.squad import squad_command

OTHER_CONFIGS = {
    "num_hidden_layers": (2, 3),
    "num_attention_heads": (2, 4),
    "hidden_act": ("gelu", "relu"),
    "intermediate_size": (64, 128),
}


@pytest.fixture(scope="module")
def folder(trained, tmp_path_factory):
    """A copy of a trained run."""
    return shutil.copytree(trained, tmp_path_factory.mktemp("trust") / "run")


@pytest.fixture
def config(squad_dir, tmp_path):
    """Writes a configuration with other values."""

    def write(**values) -> str:
        content = {**json.loads((squad_dir / "albert.json").read_text()), **values}
        path = tmp_path / "config.json"
        path.write_text(json.dumps(content))
        return str(path)

    return write


@pytest.fixture
def check(set_flags, squad_dir, folder):
    """Checks the weights in a run's folder under flags."""

    def check(*flags: str, task=SquadV1Task) -> None:
        define = define_v1_flags if task is SquadV1Task else define_v2_flags
        command = squad_command(squad_dir, folder, "--do_train=false", *flags)
        set_flags([lambda: define_flags(define)], *command[2:])
        check_weights(task(Settings()))

    return check


def change_tokenizer(squad_dir, tmp_path) -> str:
    """Writes a tokenizer with as many pieces, two of which have changed places."""
    content = (squad_dir / "spm.model").read_bytes()
    # A piece is a text of one byte, as protocol buffers have it.
    a, e = b"\n\x01a", b"\n\x01e"
    assert content.count(a) == content.count(e) == 1
    changed = content.replace(a, b"\n\x01\0").replace(e, a).replace(b"\n\x01\0", e)
    (tmp_path / "other.model").write_bytes(changed)
    return str(tmp_path / "other.model")


def test_the_same_model_with_other_dropout_lengths_and_lists_of_answers(check, config):
    check()
    path = config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.3, initializer_range=0.1)
    check(f"--albert_config_file={path}", "--max_seq_length=48", "--n_best_size=1")


@pytest.mark.parametrize("key", OTHER_CONFIGS)
@pytest.mark.parametrize("from_elsewhere", [False, True])
def test_another_configuration(check, config, folder, tmp_path, key, from_elsewhere):
    """Also of weights that are predicted with, or trained on, in another folder."""
    was, now = OTHER_CONFIGS[key]
    flags = [f"--albert_config_file={config(**{key: now})}"]
    if from_elsewhere:
        flags += [f"--output_dir={tmp_path / 'new'}", f"--init_checkpoint={folder}/model.ckpt-best"]
    with pytest.raises(FlagError, match=f"{key} {was}, not the {now} of --albert_config_file"):
        check(*flags)
    if from_elsewhere:
        with pytest.raises(FlagError, match=f"--init_checkpoint .* was trained with {key} {was}"):
            check(*flags, "--do_train=true")


def test_another_tokenizer_or_case(check, squad_dir, tmp_path):
    other = change_tokenizer(squad_dir, tmp_path)
    with pytest.raises(FlagError, match="another --spm_model_file than this --spm_model_file"):
        check(f"--spm_model_file={other}")
    with pytest.raises(FlagError, match="another --spm_model_file than this --vocab_file"):
        check("--spm_model_file=", f"--vocab_file={squad_dir / 'vocab.txt'}")
    with pytest.raises(FlagError, match="--do_lower_case True, not False"):
        check("--do_lower_case=false")


def test_another_task_may_be_trained_only(check, folder, tmp_path):
    with pytest.raises(FlagError, match=r"task squad-1\.1, not squad-2\.0"):
        check(task=SquadV2Task)
    initial = f"--init_checkpoint={folder}/model.ckpt-best"
    check(f"--output_dir={tmp_path / 'new'}", initial, "--do_train=true", task=SquadV2Task)


def test_a_folder_without_a_record(check, config, folder, tmp_path, caplog, monkeypatch):
    """It is taken, with one line."""
    for path in folder.glob("model.ckpt-best.*"):
        shutil.copy(path, tmp_path)
    flags = f"--output_dir={tmp_path / 'new'}", f"--init_checkpoint={tmp_path}/model.ckpt-best"
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    caplog.set_level("INFO", tf.get_logger().name)
    check(*flags, f"--albert_config_file={config(num_hidden_layers=3)}")
    assert caplog.text.count("model.ckpt-best has no run.json") == 1


def test_what_was_trained_stays_as_it_was_described(squad_dir, folder, config, tmp_path):
    """A refused prediction leaves all files; one with other lengths leaves the description, and
    an export takes it."""

    def predict(*flags: str):
        return run(squad_command(squad_dir, folder, "--do_train=false", *flags))

    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    result = predict(f"--albert_config_file={config(num_hidden_layers=3)}")
    assert result.returncode == 2 and "num_hidden_layers 2, not the 3" in result.stderr
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
    other = "--n_best_size=1", "--max_answer_length=2", "--max_seq_length=48", "--doc_stride=8"
    result = predict(*other, f"--export_dir={tmp_path / 'exported'}")
    assert result.returncode == 0, result.stderr
    described = (folder / "assets.extra" / "model.json").read_bytes()
    assert described == before[folder / "assets.extra" / "model.json"]
    (exported,) = (tmp_path / "exported").glob("saved_model/*/assets.extra/model.json")
    assert json.loads(exported.read_bytes()) == json.loads(described)


@pytest.mark.parametrize(
    ("file", "change", "part"),
    [
        ("config.json", {"num_hidden_layers": 3}, "num_hidden_layers 2, not the 3"),
        ("model.json", {"do_lower_case": False}, "--do_lower_case True, not False"),
        ("model.json", {"task": "squad-2.0", "start_n_top": 5}, "task squad-1.1, not squad-2.0"),
    ],
)
def test_a_description_that_contradicts_the_record(trained, tmp_path, file, change, part):
    copy = shutil.copytree(trained, tmp_path / "run")
    path = copy / "assets.extra" / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UserError, match=part) as caught:
        load_model(str(copy))
    assert "assets.extra contradicts run.json" in str(caught.value)
