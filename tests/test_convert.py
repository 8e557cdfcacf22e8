"""`albert convert`, with a model that was trained here."""

import json
import os
import pathlib

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from tests.helpers.models import arrays_of, same_arrays
from tests.helpers.running import albert, assert_fails, run, succeed
from tests.helpers.squad import squad_command


def convert(*words: object) -> str:
    return succeed(albert("convert", *words))


@pytest.fixture(scope="module")
def there(trained, tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("convert") / "there"
    assert "AlbertForQuestionAnswering of transformers" in convert(trained, folder)
    return folder


def test_a_run_becomes_a_folder_of_transformers(there, trained, squad_dir):
    expected = {"config.json", "model.safetensors", "spiece.model"}
    assert {*os.listdir(there)} == expected | {"tokenizer_config.json"}
    modes = {path.stat().st_mode for path in there.iterdir()}
    assert modes == {(trained / "run.json").stat().st_mode}
    # That of the model, although the run was without any: --deterministic_run.
    config = json.loads((there / "config.json").read_text())
    assert config["hidden_dropout_prob"] == config["attention_probs_dropout_prob"] == 0.1
    assert (there / "spiece.model").read_bytes() == (squad_dir / "spm.model").read_bytes()
    assert not [path for path in there.parent.iterdir() if path != there]


def test_the_weights_come_back(there, trained, tmp_path):
    assert "needs --do_lower_case=true" in convert(there, tmp_path / "back")
    same_arrays(arrays_of(tmp_path / "back/model.ckpt"), arrays_of(trained / "model.ckpt-best"))
    assert (tmp_path / "back/spiece.model").exists()


def from_folder(there, squad_dir: pathlib.Path, out: pathlib.Path, *flags: str) -> list[str]:
    files = f"--albert_config_file={there}/config.json", f"--spm_model_file={there}/spiece.model"
    return squad_command(squad_dir, out, f"--init_checkpoint={there}", *files, *flags)


def test_a_folder_answers_and_can_be_exported(there, trained, squad_dir, tmp_path):
    flags = "--train_file=", f"--export_dir={tmp_path / 'export'}"
    succeed(from_folder(there, squad_dir, tmp_path / "out", *flags))
    predictions = (tmp_path / "out/predictions.json").read_text()
    assert predictions == (trained / "predictions.json").read_text()
    (variables,) = (tmp_path / "export/saved_model").glob("*/variables")
    assert tf.train.load_checkpoint(f"{variables}/variables").has_tensor("cls/squad/output_weights")


@pytest.mark.slow
def test_training_starts_from_a_folder_even_in_bfloat16(there, trained, squad_dir, tmp_path):
    """With a learning rate that changes nothing, the weights stay the same."""
    flags = "--predict_file=", "--train_steps=1", "--learning_rate=1e-30", "--remove_padding=false"
    environment = {**os.environ, "TF_BF16_CONVERSION": "basic"}
    log = succeed(from_folder(there, squad_dir, tmp_path / "out", *flags), env=environment)
    assert "new: none; unused: global_step" in log
    checkpoints = trained / "model.ckpt-best", tmp_path / "out/model.ckpt-1"
    before, after = ({**arrays_of(path), "global_step": np.int64(0)} for path in checkpoints)
    same_arrays(after, before)


def test_a_missing_path_is_one_line(trained):
    assert_fails(run(albert("convert", trained)), 2, "pass two paths")
