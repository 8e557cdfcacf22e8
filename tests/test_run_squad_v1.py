"""Tests specific to the SQuAD 1.1 program, and some on behalf of all programs."""

import json
import os
import re

import numpy as np
import pytest

from albert.core.errors import FlagError, UserError
from tests.helpers.checkpoints import weights
from tests.helpers.golden import read_json as read
from tests.helpers.running import albert, assert_fails, run, succeed
from tests.helpers.squad import squad_command, write_table


def test_a_file_without_answers_can_be_answered(trained, squad_dir, tmp_path):
    """From an initial checkpoint, by OpenVINO as by TensorFlow; a blank text has no answer."""
    paragraphs = [p for a in read(squad_dir / "dev-v1.1.json")["data"] for p in a["paragraphs"]]
    for question in (question for paragraph in paragraphs for question in paragraph["qas"]):
        del question["answers"]
    paragraphs.append({"context": "   ", "qas": [{"id": "blank", "question": "What?"}]})
    path = tmp_path / "dev.json"
    path.write_text(json.dumps({"data": [{"title": "", "paragraphs": paragraphs}]}))
    initial = f"--init_checkpoint={trained / 'model.ckpt-best.index'}"
    flags = initial, "--do_train=false", f"--predict_file={path}", "--engine=openvino"
    succeed(squad_command(squad_dir, tmp_path / "out", *flags))
    expected = {**read(trained / "predictions.json"), "blank": ""}
    assert read(tmp_path / "out/predictions.json") == expected
    recorded = read(tmp_path / "out/eval_results.json")["init_checkpoint"]
    assert initial == f"--init_checkpoint={recorded}"


@pytest.mark.slow
def test_a_part_of_a_table_is_the_development_set(squad_dir, prepare, tmp_path):
    out, table = tmp_path / "out", tmp_path / "train.csv"
    write_table(squad_dir / "train-v1.1.json", table)
    files = f"--train_file={table}", "--predict_file=", "--on_bad_row=first", "--train_steps=2"
    command = squad_command(squad_dir, out, *files, "--dev_fraction=0.25", "--remove_padding=false")
    succeed(command)
    dev = read(out / "dev_split.json")
    assert (dev["dev_fraction"], dev["dev_seed"]) == (0.25, 12345)
    paragraphs = [paragraph for article in dev["data"] for paragraph in article["paragraphs"]]
    ids = {question["id"] for paragraph in paragraphs for question in paragraph["qas"]}
    assert len(paragraphs) == 4 and ids == read(out / "predictions.json").keys()
    headers = [read(out / f"{name}.tf_record.json") for name in ("train", "eval")]
    assert [header["facts"]["num_examples"] for header in headers] == [48 - len(ids), len(ids)]
    scored = run(albert("evaluate", out, f"--data={out}/dev_split.json", "--json"))
    f1 = read(out / "eval_results.json")["f1"]
    assert json.loads(scored.stdout)["f1"] == pytest.approx(f1), scored.stderr
    with pytest.raises(FlagError, match=r"--dev_fraction \(was 0.25, is 0.5\)"):
        prepare([*command, "--dev_fraction=0.5"])


def test_a_non_finite_loss_keeps_the_last_good_checkpoint(squad_dir, tmp_path):
    flags = "--learning_rate=1e20", "--save_checkpoints_steps=1", "--remove_padding=false"
    result = run(squad_command(squad_dir, tmp_path, *flags))
    assert_fails(result, 1, "NaN or infinite at step", "checkpoints are good", "--learning_rate")
    step = int(re.search(r"at step (\d+)", result.stderr)[1])
    kept = weights(tmp_path, f"model.ckpt-{step}")
    assert all(np.isfinite(value).all() for value in kept.values())
    assert not (tmp_path / f"model.ckpt-{step + 1}.index").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--from_scratch --init_checkpoint=x", "--from_scratch and --init_checkpoint contradict"),
        ("--albert_hub_module_handle=x", "--albert_hub_module_handle .* --init_checkpoint"),
        ("--shard_optimizer=state", "--shard_optimizer=state .* add --use_horovod=true"),
        ("--spm_model_file=", "--spm_model_file or --vocab_file is required"),
        ("--do_train=true --train_file=", "--do_train needs --train_file"),
        ("--dev_fraction=0.1", "--dev_fraction replaces --predict_file"),
        ("--init_checkpoint=a*", "--init_checkpoint a.*: TensorFlow takes a path with"),
        ("--export_dir=a*", "--export_dir a.*: TensorFlow takes a path with"),
        *((f"--output_dir=a{sign}", "with .* a symbolic link") for sign in ("[1]", "?", "\\b")),
    ],
)
def test_conflicting_flags_are_an_error(prepare, squad_dir, tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FlagError, match=message):
        prepare(squad_command(squad_dir, tmp_path / "out", *flags.split()))
    assert not list(tmp_path.iterdir())


def test_a_link_to_a_folder_named_like_a_pattern_works(prepare, squad_dir, tmp_path):
    (tmp_path / "a[1]").mkdir()
    (tmp_path / "a]{b}").symlink_to(tmp_path / "a[1]")
    prepare(squad_command(squad_dir, tmp_path / "a]{b}", "--do_train=false"))
    assert "eval.tf_record" in os.listdir(tmp_path / "a[1]")


@pytest.mark.parametrize("flag", ["train_file", "predict_file"])
def test_squad_2_is_refused(prepare, squad_dir, tmp_path, flag):
    content = read(squad_dir / "train-v1.1.json")
    (question, *_) = content["data"][0]["paragraphs"][0]["qas"]
    question |= {"answers": [], "is_impossible": True}
    (tmp_path / "train.json").write_text(json.dumps(content))
    parts = "/train.json is SQuAD 2.0: ", " has 1 unanswerable", question["id"], "albert squad 2.0"
    with pytest.raises(UserError, match=".*".join(parts)):
        prepare(squad_command(squad_dir, tmp_path / "out", f"--{flag}={tmp_path}/train.json"))


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        ("TF_BF16_CONVERSION=basic", ["bf16 configuration (was None, is sha256:"]),
        ("--overwrite_output_dir --predict_file=typo.json", ["typo.json"]),
        ("--init_checkpoint={}/model.ckpt-best", ["would be replaced or removed", "--output_dir"]),
        ("--overwrite_output_dir --init_checkpoint={}/model.ckpt-5", ["would be replaced"]),
    ],
)
def test_an_existing_run_is_neither_changed_nor_lost(
    prepare, trained, squad_dir, monkeypatch, flags, parts
):
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*.*")}
    flags = flags.format(trained).split()
    if flags[0].startswith("TF_BF16"):
        monkeypatch.setenv(*flags.pop().split("="))
    with pytest.raises(UserError) as caught:
        prepare(squad_command(squad_dir, trained, *flags))
    assert all(part in str(caught.value) for part in parts)
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*.*")} == before
