"""What SQuAD 1.1 has of its own as a program, and what stands for all programs here."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf2

from runtime.errors import FlagError, UserError
from tests.helpers.checkpoints import weights
from tests.helpers.running import assert_fails, run, succeed
from tests.helpers.squad import squad_command

BF16 = "TF_BF16_CONVERSION"


def read(path: pathlib.Path) -> dict:
    return json.loads(path.read_text())


@pytest.fixture
def changed(squad_dir, tmp_path):
    """Writes a file of `squad_dir` with something changed; returns its path and content."""

    def changed(name: str, change) -> tuple[pathlib.Path, dict]:
        content = read(squad_dir / name)
        change(content)
        (tmp_path / name).write_text(json.dumps(content))
        return tmp_path / name, content

    return changed


def paragraphs_of(content: dict) -> list[dict]:
    return [paragraph for article in content["data"] for paragraph in article["paragraphs"]]


def test_overwriting_starts_anew_and_leaves_other_files(trained, squad_dir, tmp_path):
    """--do_train and --do_predict are on by default; not typed, they need no file."""
    out = shutil.copytree(trained, tmp_path / "out")
    (out / "notes.txt").write_text("mine")
    command = squad_command(squad_dir, out, "--overwrite_output_dir", "--train_steps=1")
    log = succeed([*command, "--predict_file=", "--remove_padding=false"])
    assert "--do_predict is off, because --predict_file is not given" in log
    names = set(os.listdir(out))
    assert {"notes.txt", "model.ckpt-1.index"} <= names
    assert not names & {"model.ckpt-12.index", "eval_results.json", "predictions.json"}


def test_a_file_without_answers_is_answered(trained, squad_dir, changed, tmp_path):
    """By an initial checkpoint; what is asked of a text without words has none."""

    def without_answers(content: dict) -> None:
        for paragraph in paragraphs_of(content):
            for question in paragraph["qas"]:
                del question["answers"]
        blank = {"context": "   ", "qas": [{"id": "blank", "question": "What?"}]}
        content["data"].append({"title": "", "paragraphs": [blank]})

    path, _ = changed("dev-v1.1.json", without_answers)
    initial = f"--init_checkpoint={trained / 'model.ckpt-best.index'}"
    flags = initial, "--do_train=false", f"--predict_file={path}"
    succeed(squad_command(squad_dir, tmp_path / "out", *flags))
    expected = {**read(trained / "predictions.json"), "blank": ""}
    assert read(tmp_path / "out/predictions.json") == expected
    recorded = read(tmp_path / "out/eval_results.json")["init_checkpoint"]
    assert initial == f"--init_checkpoint={recorded}"


def test_a_loss_that_is_not_finite_keeps_the_last_good_checkpoint(squad_dir, tmp_path):
    flags = "--learning_rate=1e20", "--save_checkpoints_steps=1", "--remove_padding=false"
    result = run(squad_command(squad_dir, tmp_path, *flags))
    assert_fails(result, 1, "NaN or infinite at step", "last good checkpoint", "--learning_rate")
    step = int(re.search(r"at step (\d+)", result.stderr).group(1))
    kept = weights(tmp_path, f"model.ckpt-{step}")
    assert all(np.isfinite(value).all() for value in kept.values())
    assert not (tmp_path / f"model.ckpt-{step + 1}.index").exists()


@pytest.mark.each_python
def test_bfloat16_is_the_environments(trained, squad_dir, tmp_path):
    """With checkpoints that fit float32; what is converted is tested in tests/runtime/bf16."""
    flags = "--train_steps=1", "--do_predict=false", f"--init_checkpoint={trained}/model.ckpt-best"
    log = succeed(squad_command(squad_dir, tmp_path, *flags), env={**os.environ, BF16: "1"})
    assert re.search(r"bfloat16 by .*albert.json: \d+ of \d+", log)
    assert "27 variables taken; new: none" in log
    written, plain = weights(tmp_path, "model.ckpt-1"), weights(trained)
    assert {n: (v.shape, v.dtype) for n, v in written.items()} == {
        n: (v.shape, v.dtype) for n, v in plain.items()
    }


@pytest.mark.each_python
@pytest.mark.skipif(not hasattr(tf2, "lite"), reason="this TensorFlow has no tf.lite")
def test_an_export_can_be_converted_for_tflite(exported):
    """With its own operations alone, and for any batch and length."""
    converter = tf2.lite.TFLiteConverter.from_saved_model(str(exported))
    lite = tf2.lite.Interpreter(model_content=converter.convert()).get_signature_runner()
    model = tf2.saved_model.load(str(exported)).signatures["serving_default"]
    ids = np.array([[2, 5, 6, 3, 7, 8, 9, 3], [2, 5, 9, 3, 7, 3, 0, 0]], np.int32)
    segments = np.int32([[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 0, 0]])
    inputs = {"input_ids": ids, "input_mask": np.int32(ids > 0), "segment_ids": segments}
    expected = model(**{name: tf2.constant(value) for name, value in inputs.items()})
    found = lite(**inputs)
    assert found.keys() == {"start_log_prob", "end_log_prob"}
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value.numpy(), atol=1e-5)


class TestBadInput:
    """What a person gets wrong: one line that says what, where and what to do."""

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            ("--from_scratch --init_checkpoint=x", "--from_scratch and --init_checkpoint contra"),
            ("--albert_hub_module_handle=x", "--albert_hub_module_handle .* --init_checkpoint"),
            ("--shard_optimizer=state", "--shard_optimizer=state .* add --use_horovod=true"),
            (
                "--max_query_length=62",
                "--max_seq_length 64 must be more than --max_query_length 62",
            ),
            ("--doc_stride=60", "--doc_stride 60 is more .*: text would be skipped"),
            ("--train_feature_file=/x --predict_feature_file=/x", "must be different files"),
            ("--spm_model_file=", "--spm_model_file or --vocab_file is required"),
            ("--do_train=true --train_file=", "--do_train needs --train_file"),
        ],
    )
    def test_flags(self, prepare, squad_dir, tmp_path, flags, message):
        with pytest.raises(FlagError, match=message):
            prepare(squad_command(squad_dir, tmp_path / "out", *flags.split()))
        assert not list(tmp_path.iterdir())

    def test_a_vocabulary_of_another_model(self, prepare, squad_dir, tmp_path):
        pieces = (squad_dir / "vocab.txt").read_text()
        (tmp_path / "vocab.txt").write_text(pieces.replace("[CLS]", "other"))
        flags = "--spm_model_file=", f"--vocab_file={tmp_path / 'vocab.txt'}"
        with pytest.raises(UserError, match=r"vocab\.txt has no piece \[CLS\]"):
            prepare(squad_command(squad_dir, tmp_path / "out", *flags))
        assert not (tmp_path / "out").exists()

    def test_an_attempt_leaves_a_free_folder(self, prepare, squad_dir, changed, tmp_path):
        def answer_twice(content: dict) -> None:
            answers = paragraphs_of(content)[0]["qas"][0]["answers"]
            answers.append(answers[0])

        path, _ = changed("dev-v1.1.json", answer_twice)
        with pytest.raises(UserError, match="dev file"):
            prepare(squad_command(squad_dir, tmp_path / "out", f"--train_file={path}"))
        assert not os.listdir(tmp_path / "out")

    @pytest.mark.parametrize("flag", ["train_file", "predict_file"])
    def test_squad_2_is_refused_before_anything_is_written(
        self, prepare, squad_dir, changed, tmp_path, flag
    ):
        def make_impossible(content: dict) -> None:
            paragraphs_of(content)[2]["qas"][2] |= {"answers": [], "is_impossible": True}

        path, content = changed("train-v1.1.json", make_impossible)
        asked = paragraphs_of(content)[2]["qas"][2]["id"]
        parts = f"--{flag} ", "holds 1 unanswerable questions", asked, "run_squad_v2.py"
        with pytest.raises(UserError, match=".*".join(parts)):
            prepare(squad_command(squad_dir, tmp_path / "out", f"--{flag}={path}"))
        assert not (tmp_path / "out").exists()


class TestWhereAnotherRunIs:
    """The folder's run is neither changed nor lost."""

    @pytest.fixture
    def refused(self, prepare, trained, squad_dir):
        """What a run into the folder says under flags, which leaves everything as it was."""

        def refused(error: type[UserError], *flags: str) -> str:
            before = {path: path.stat().st_mtime_ns for path in trained.rglob("*.*")}
            with pytest.raises(error) as caught:
                prepare(squad_command(squad_dir, trained, *flags))
            assert {path: path.stat().st_mtime_ns for path in trained.rglob("*.*")} == before
            return str(caught.value)

        return refused

    def test_other_flags_are_named(self, refused, monkeypatch):
        message = refused(FlagError, "--learning_rate=2e-3", "--seed=7")
        for part in ("--learning_rate (was 0.001, is 0.002)", "--seed", "--overwrite_output_dir"):
            assert part in message
        monkeypatch.setenv(BF16, "basic")
        assert "bf16 configuration (was None, is sha256:" in refused(FlagError)
        monkeypatch.setenv(BF16, "missing.json")
        message = refused(UserError)
        assert BF16 in message and "missing.json cannot be read" in message

    def test_a_wrong_file_does_not_cost_the_run(self, refused):
        flags = "--overwrite_output_dir", "--predict_file=typo.json"
        assert "typo.json" in refused(UserError, *flags)

    def test_weights_of_the_folder_to_start_from(self, refused, trained):
        for flags in (["model.ckpt-best"], ["model.ckpt-5", "--overwrite_output_dir"]):
            flags[0] = f"--init_checkpoint={trained / flags[0]}"
            message = refused(FlagError, *flags)
            assert "would be replaced or removed" in message and "--output_dir" in message
