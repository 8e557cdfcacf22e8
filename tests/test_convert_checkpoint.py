"""convert_checkpoint.py as a command, with a model that was trained here."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import squad_utils
from tests.helpers.forking import ROOT
from tests.helpers.models import arrays_of, same_arrays
from tests.helpers.running import run
from tests.helpers.squad import squad_command
from tokenization import FullTokenizer


def convert(*words: object) -> subprocess.CompletedProcess:
    return run([sys.executable, str(ROOT / "convert_checkpoint.py"), *map(str, words)])


def error_of(result: subprocess.CompletedProcess) -> str:
    """The one line that an error consists of; no traceback may be there."""
    assert "Traceback" not in result.stderr, result.stderr
    (line,) = (line for line in result.stderr.splitlines() if ": error: " in line)
    return line


@pytest.fixture(scope="module")
def there(trained, squad_dir, tmp_path_factory) -> pathlib.Path:
    """The folder of transformers that the trained model became."""
    folder = tmp_path_factory.mktemp("convert") / "there"
    result = convert(trained, folder)
    assert result.returncode == 0, result.stderr
    assert "AlbertForQuestionAnswering of transformers" in result.stderr
    return folder


def test_a_run_becomes_a_folder(there, trained, squad_dir):
    files = {path.name for path in there.iterdir()}
    assert files == {
        *("README.md", "config.json", "model.safetensors", "spiece.model"),
        "tokenizer_config.json",
    }
    modes = {os.stat(path).st_mode for path in there.iterdir()}
    assert modes == {os.stat(trained / "run.json").st_mode}
    assert (there / "spiece.model").read_bytes() == (squad_dir / "spm.model").read_bytes()
    card, scores = (there / "README.md").read_text(), trained / "eval_results.json"
    best = json.loads(scores.read_text())
    assert f"of step {best['global_step']}," in card and f"| f1 | {best['f1']:.4g} |" in card
    assert "| learning_rate | `0.001` |" in card and "(`gelu_new`)" in card
    assert not [path for path in there.parent.iterdir() if path != there]


def test_it_comes_back(there, trained, tmp_path):
    result = convert(there, tmp_path / "back")
    assert result.returncode == 0, result.stderr
    assert "needs --do_lower_case=true" in result.stderr
    before = tf.train.load_checkpoint(str(trained / "model.ckpt-best"))
    found = arrays_of(tmp_path / "back/model.ckpt")
    names = {n for n in before.get_variable_to_shape_map() if not n.endswith(("_m", "_v"))}
    same_arrays(found, {name: before.get_tensor(name) for name in names})
    assert (tmp_path / "back/spiece.model").exists()


def test_answers_are_the_same_there(there, trained, squad_dir, tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers")
    examples = squad_utils.read_squad_examples(str(squad_dir / "dev-v1.1.json"), False)
    tokenizer = FullTokenizer(None, True, str(there / "spiece.model"))
    features = []
    squad_utils.convert_examples_to_features(
        examples, tokenizer, 64, 16, 20, False, features.append, True
    )
    theirs = transformers.AlbertTokenizer.from_pretrained(there)
    text = examples[0].paragraph_text
    (pieces,) = tokenizer.encode([text])
    assert theirs(text, add_special_tokens=False)["input_ids"] == pieces
    model = transformers.AlbertForQuestionAnswering.from_pretrained(there).eval()
    keys = {"input_ids": "input_ids", "attention_mask": "input_mask"}
    keys["token_type_ids"] = "segment_ids"
    inputs = {k: torch.tensor([getattr(f, v) for f in features]) for k, v in keys.items()}
    with torch.no_grad():
        outputs = model(**inputs)
    # Padding is no place of an answer.
    padding = (1 - inputs["attention_mask"]) * -1e30
    starts, ends = (o + padding for o in (outputs.start_logits, outputs.end_logits))
    results = [
        squad_utils.RawResult(feature.unique_id, start.tolist(), end.tolist())
        for feature, start, end in zip(features, starts, ends, strict=True)
    ]
    found = {}
    squad_utils.accumulate_predictions_v1(found, examples, features, results, 20, 30)
    answers = squad_utils.write_predictions_v1(
        found, examples, features, results, 20, 30, str(tmp_path / "p"), str(tmp_path / "n")
    )
    assert answers == json.loads((trained / "predictions.json").read_text())
    assert len(set(answers.values())) > 1


@pytest.fixture(scope="module")
def from_folder(there):
    """The command of a run that takes the model, its configuration and tokenizer from there."""

    def command(squad_dir: pathlib.Path, out: pathlib.Path, *flags: str) -> list[str]:
        return squad_command(
            squad_dir,
            out,
            f"--init_checkpoint={there}",
            f"--albert_config_file={there / 'config.json'}",
            f"--spm_model_file={there / 'spiece.model'}",
            *flags,
        )

    return command


def test_a_folder_answers_and_is_exported(from_folder, trained, squad_dir, tmp_path):
    flags = "--train_file=", f"--export_dir={tmp_path / 'export'}"
    result = run(from_folder(squad_dir, tmp_path / "out", *flags))
    assert result.returncode == 0, result.stderr
    found = (tmp_path / "out/predictions.json").read_text()
    assert found == (trained / "predictions.json").read_text()
    (saved,) = (tmp_path / "export/saved_model").iterdir()
    variables = str(saved / "variables/variables")
    assert tf.train.load_checkpoint(variables).has_tensor("cls/squad/output_weights")


def test_training_starts_from_a_folder_in_bfloat16_too(from_folder, trained, squad_dir, tmp_path):
    """With a learning rate that changes nothing, the weights stay what they are."""
    flags = "--predict_file=", "--train_steps=1", "--learning_rate=1e-30"
    environment = {**os.environ, "TF_BF16_CONVERSION": "basic"}
    result = run(from_folder(squad_dir, tmp_path / "out", *flags), env=environment)
    assert result.returncode == 0, result.stderr
    assert "new: none; unused: global_step" in result.stderr
    after = tf.train.load_checkpoint(str(tmp_path / "out/model.ckpt-1"))
    before = arrays_of(trained / "model.ckpt-best")
    for name in before:
        if not name.endswith(("_m", "_v", "global_step")):
            np.testing.assert_array_equal(after.get_tensor(name), before[name])


def test_what_goes_wrong_is_one_line(there, trained, squad_dir, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(there, copy)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "hidden_act": "gelu"}))
    flags = f"--init_checkpoint={copy}", "--train_steps=1", "--predict_file="
    result = run(squad_command(squad_dir, tmp_path / "out", *flags))
    assert result.returncode == 2
    assert "was trained with hidden_act gelu_erf" in error_of(result)
    (copy / "model.safetensors").write_bytes((there / "model.safetensors").read_bytes()[:-9])
    for words, code, expected in (
        ([trained], 2, "two paths are needed"),
        ([tmp_path / "none", tmp_path / "to"], 1, "no checkpoint there"),
        ([trained, there], 1, "is there already"),
        ([copy, tmp_path / "to"], 1, "model.safetensors is damaged"),
        (
            [trained, tmp_path / "to", f"--spm_model_file={squad_dir / 'vocab.txt'}"],
            2,
            "was trained with another --spm_model_file than this --spm_model_file",
        ),
        (
            [trained, tmp_path / "to", f"--albert_config_file={squad_dir / 'bert.json'}"],
            2,
            "was trained with an ALBERT, not a BERT",
        ),
    ):
        result = convert(*words)
        assert result.returncode == code and expected in error_of(result)
    assert {path.name for path in tmp_path.iterdir()} == {"copy"}
