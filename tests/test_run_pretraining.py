"""From plain text to a fine-tuned model, each step by its command; and what goes wrong."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import re
import shutil
import sys

import numpy as np
import pytest
import sentencepiece as spm
import tensorflow.compat.v1 as tf

from tests.helpers.files import change_header
from tests.helpers.forking import ROOT
from tests.helpers.pretraining import write_topics
from tests.helpers.running import run, run_as_workers, run_text
from tests.helpers.squad import squad_command, write_vocabulary

STEPS = 160


def program(name: str, *flags: str) -> list[str]:
    return [sys.executable, str(ROOT / name), *flags]


def pretraining(folder: pathlib.Path, output_dir: pathlib.Path, *flags: str) -> list[str]:
    """The command of a short run; later flags win over earlier ones."""
    return program(
        "run_pretraining.py",
        f"--albert_config_file={folder}/albert.json",
        f"--input_file={folder}/train.tfrecord*",
        f"--eval_file={folder}/dev.tfrecord",
        f"--output_dir={output_dir}",
        "--do_train",
        "--do_eval",
        "--max_seq_length=48",
        "--max_predictions_per_seq=6",
        "--train_batch_size=32",
        "--optimizer=adamw",
        "--learning_rate=3e-3",
        f"--num_train_steps={STEPS}",
        "--num_warmup_steps=20",
        f"--save_checkpoints_steps={STEPS // 2}",
        *flags,
    )


def succeed(command: list[str]) -> str:
    """Runs a command that must end well; returns its log."""
    result = run(command)
    assert result.returncode == 0, result.stderr
    return result.stderr


@pytest.fixture(scope="module")
def walk(tmp_path_factory) -> pathlib.Path:
    """A folder with text, a tokenizer, records and a pretrained model in `out`."""
    folder = tmp_path_factory.mktemp("walk")
    write_topics(folder / "train.txt", 1, 500)
    write_topics(folder / "dev.txt", 2, 60)
    succeed(
        program(
            "train_sentencepiece.py",
            f"--input_file={folder}/train.txt",
            f"--model_prefix={folder}/spm",
            "--vocab_size=70",
        )
    )
    for name, flags in (
        ("train", ["--dupe_factor=5"]),
        ("dev", ["--dupe_factor=2"]),
    ):
        succeed(
            program(
                "create_pretraining_data.py",
                f"--input_file={folder}/{name}.txt",
                f"--output_file={folder}/{name}.tfrecord",
                f"--spm_model_file={folder}/spm.model",
                "--max_seq_length=48",
                "--max_predictions_per_seq=6",
                *flags,
            )
        )
    model = spm.SentencePieceProcessor(model_file=str(folder / "spm.model"))
    config = {
        "vocab_size": model.get_piece_size(),
        "embedding_size": 32,
        "hidden_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 96,
        "max_position_embeddings": 64,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.1,
        "initializer_range": 0.1,
    }
    (folder / "albert.json").write_text(json.dumps(config))
    log = succeed(pretraining(folder, folder / "out"))
    assert "random weights" not in log
    (folder / "log").write_text(log)
    return folder


def results(folder: pathlib.Path) -> dict:
    return json.loads((folder / "eval_results.json").read_text())


def share_of_the_most_frequent(path: pathlib.Path) -> float:
    """Of the masked tokens of a record file."""
    counts = collections.Counter()
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        used = int(sum(features["masked_lm_weights"].float_list.value))
        counts.update(features["masked_lm_ids"].int64_list.value[:used])
    return max(counts.values()) / counts.total()


def weights(folder: pathlib.Path, name: str) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(folder / name))
    return {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}


def assert_equal_weights(one: dict, other: dict) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


def assert_fails(result, code: int, *parts: str) -> None:
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr, result.stderr
    (line,) = [line for line in result.stderr.splitlines() if ": error: " in line]
    for part in parts:
        assert part in line


@pytest.mark.each_python
def test_masked_tokens_are_predicted_from_their_neighbours(walk):
    """Far better than by the most frequent token, on text that was not trained on."""
    best = results(walk / "out")
    share = share_of_the_most_frequent(walk / "dev.tfrecord")
    assert share < 0.25
    assert best["masked_lm_accuracy"] > 2 * share


@pytest.mark.each_python
def test_files_have_the_reference_names(walk):
    names = set(os.listdir(walk / "out"))
    parts = ("index", "meta", "data-00000-of-00001")
    for step in ("best", STEPS // 2, STEPS):
        assert {f"model.ckpt-{step}.{part}" for part in parts} <= names
    assert {"eval_results.txt", "checkpoint", "run.json"} <= names
    lines = (walk / "out" / "eval_results.txt").read_text()
    for score in ("masked_lm_accuracy", "masked_lm_loss", "sentence_order_accuracy"):
        assert f"{score} = " in lines


def test_fine_tuning_starts_from_it(walk, squad_dir, tmp_path):
    best = walk / "out" / "model.ckpt-best"
    log = succeed(
        squad_command(
            squad_dir,
            tmp_path,
            f"--albert_config_file={walk}/albert.json",
            f"--spm_model_file={walk}/spm.model",
            f"--init_checkpoint={best}",
            "--train_steps=2",
            "--do_predict=false",
        )
    )
    taken = [name for name in weights(walk / "out", "model.ckpt-best") if name.startswith("bert/")]
    taken = [name for name in taken if not name.endswith(("/adam_m", "/adam_v"))]
    assert f"{len(taken)} variables taken" in log


def test_bert_is_pretrained_on_words_and_next_sentences(walk, tmp_path):
    """With a WordPiece vocabulary and the defaults of --model_type=bert."""
    text = (walk / "train.txt").read_text()
    write_vocabulary(tmp_path / "vocab.txt", text.splitlines(), 90)
    flags = ["--model_type=bert", f"--vocab_file={tmp_path}/vocab.txt", "--max_seq_length=48"]
    flags += ["--max_predictions_per_seq=6"]
    for name in ("train", "dev"):
        files = [f"--input_file={walk}/{name}.txt", f"--output_file={tmp_path}/{name}.tfrecord"]
        succeed(program("create_pretraining_data.py", *flags, *files))
    labels = []
    for record in tf.data.TFRecordDataset(str(tmp_path / "dev.tfrecord")).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        labels += features["next_sentence_labels"].int64_list.value
    # Ten times through the text, and every other second segment from anywhere.
    assert len(labels) > 10 * 60
    assert 0.4 < np.mean(labels) < 0.7
    pieces = len((tmp_path / "vocab.txt").read_text().splitlines())
    config = {**json.loads((walk / "albert.json").read_text()), "vocab_size": pieces}
    del config["embedding_size"]
    (tmp_path / "albert.json").write_text(json.dumps(config))
    short = ["--num_train_steps=20", "--num_warmup_steps=2"]
    succeed(pretraining(tmp_path, tmp_path / "out", *short))
    found = results(tmp_path / "out")
    for score in ("masked_lm_loss", "next_sentence_accuracy", "next_sentence_loss"):
        assert np.isfinite(found[score])
    assert not [score for score in found if score.startswith("sentence_order")]
    assert "cls/predictions/transform/dense/kernel" in weights(tmp_path / "out", "model.ckpt-best")
    # Layers of a BERT cannot start from a first group.
    refused = run(pretraining(tmp_path, tmp_path / "other", *short, "--init_from_group0"))
    assert_fails(refused, 2, "--init_from_group0 is for an ALBERT")


def test_a_run_that_was_stopped_ends_with_the_same_weights(walk, tmp_path):
    """The first half of the run, as if it had been killed after it; dropout is on."""
    folder = tmp_path / "out"
    shutil.copytree(walk / "out", folder)
    for file in folder.glob(f"model.ckpt-{STEPS}.*"):
        file.unlink()
    for name in ("checkpoint", "eval_results.json"):
        (folder / name).unlink()
    log = succeed(pretraining(walk, folder))
    assert f"Training from step {STEPS // 2} to {STEPS}" in log
    last = f"model.ckpt-{STEPS}"
    assert_equal_weights(weights(folder, last), weights(walk / "out", last))
    assert results(folder)["history"] == results(walk / "out")["history"]


def test_workers_share_steps_and_scores(walk, tmp_path, mpirun):
    """Half of the steps each; a checkpoint has the same scores as with one worker."""
    schedule = ("--num_train_steps=12", "--num_warmup_steps=4", "--start_warmup_step=2")
    flags = (*schedule, "--use_horovod=true")
    command = pretraining(walk, tmp_path, *flags, "--save_checkpoints_steps=6", "--log_steps=1")
    result = run_as_workers(2, command)
    assert result.returncode == 0, result.stderr
    log = result.stderr
    assert "Training from step 0 to 6, 2 of them warmup, global batch size 64" in log
    # The last step's rate is a sixth of the highest, which two workers do not double.
    rates = re.findall(r"learning rate (\S+)", log)
    assert rates == ["0", "0", "0.0015", "0.0015", "0.001", "0.0005"]
    scored = results(tmp_path)
    alone = ("--do_train=false", "--input_file=", f"--init_checkpoint={tmp_path}/model.ckpt-6")
    succeed(pretraining(walk, tmp_path / "alone", *alone))
    names = ("masked_lm_accuracy", "masked_lm_loss", "sentence_order_accuracy", "loss")
    for name in names:
        assert results(tmp_path / "alone")[name] == scored[name]


def test_masks_drawn_in_training(walk, tmp_path):
    """Without offline masks, with LAMB, another power of the decay, and few checkpoints kept."""
    succeed(
        program(
            "create_pretraining_data.py",
            f"--input_file={walk}/dev.txt",
            f"--output_file={tmp_path}/plain",
            f"--spm_model_file={walk}/spm.model",
            "--max_seq_length=48",
            "--masked_lm_prob=0",
            "--dupe_factor=1",
        )
    )
    flags = (
        f"--input_file={tmp_path}/plain",
        f"--eval_file={tmp_path}/plain",
        "--masked_lm_budget=0.15",
        f"--spm_model_file={walk}/spm.model",
        "--optimizer=lamb",
        "--poly_power=0.5",
        "--start_warmup_step=2",
        "--num_train_steps=6",
        "--save_checkpoints_steps=2",
        "--keep_checkpoint_max=1",
        "--log_steps=1",
    )
    log = succeed(pretraining(walk, tmp_path / "out", *flags))
    # None before the start of the warmup, then a twentieth of the highest more every step.
    rates = re.findall(r"learning rate (\S+)", log)
    assert rates == ["0", "0", "0", "0.00015", "0.0003", "0.00045"]
    history = results(tmp_path / "out")["history"]
    assert [entry["global_step"] for entry in history] == [2, 4, 6]
    assert history[-1]["masked_lm_loss"] > 0
    kept = sorted(path.name for path in (tmp_path / "out").glob("*.index"))
    assert kept == ["model.ckpt-6.index", "model.ckpt-best.index"]


def test_records_that_were_replaced_are_noticed(walk, tmp_path):
    """Also by the same command that ended well before; the header alone tells nothing."""
    records = tmp_path / "records"
    shutil.copy(walk / "train.tfrecord", records)
    shutil.copy(walk / "train.tfrecord.json", tmp_path / "records.json")
    change_header(tmp_path / "records.json", '"train.tfrecord"', '"records"', with_hash=False)
    flags = (f"--input_file={records}", "--do_eval=false", "--num_train_steps=1")
    succeed(pretraining(walk, tmp_path / "out", *flags))
    shutil.copy(walk / "dev.tfrecord", records)
    result = run(pretraining(walk, tmp_path / "out", *flags))
    assert_fails(result, 1, "records is not what its header", "damaged")
    # Without it the content itself is what tells the runs apart.
    (tmp_path / "records.json").unlink()
    assert_fails(run(pretraining(walk, tmp_path / "out", *flags)), 2, "other flags: --input_file")


CONTRACT = """
import sys
from absl import flags
import run_pretraining
FLAGS = flags.FLAGS
FLAGS(["test"])
FLAGS.max_predictions_per_seq = 6
FLAGS.max_seq_length = 48
FLAGS.output_dir, FLAGS.albert_config_file, FLAGS.input_file = sys.argv[1:]
FLAGS.do_train = FLAGS.do_eval = True
FLAGS.num_train_steps = FLAGS.save_checkpoints_steps = 1
FLAGS.max_eval_steps = 1
FLAGS.train_batch_size = 64
run_pretraining.main(None)
"""


def test_main_under_flags_that_a_program_sets(walk, tmp_path):
    """As the reference's own test calls it."""
    arguments = [tmp_path / "out", walk / "albert.json", walk / "dev.tfrecord"]
    result = run_text(tmp_path, CONTRACT, *map(str, arguments))
    assert result.returncode == 0, result.stderr
    names = set(os.listdir(tmp_path / "out"))
    for name in ("model.ckpt-best", "model.ckpt-1"):
        assert {f"{name}.{part}" for part in ("meta", "index", "data-00000-of-00001")} <= names
    assert {"eval_results.txt", "checkpoint"} <= names


@pytest.mark.parametrize(
    ("flags", "code", "parts"),
    [
        (["--max_seq_length=32"], 1, ["train.tfrecord", "48 values", "--max_seq_length"]),
        (["--do_train=false", "--do_eval=false"], 2, ["--do_train", "--do_eval"]),
        (["--input_file="], 2, ["--input_file is required"]),
        (["--input_file=", "--eval_file=", "--do_train=false"], 2, ["--input_file is required"]),
    ],
)
def test_what_goes_wrong(walk, tmp_path, flags, code, parts):
    assert_fails(run(pretraining(walk, tmp_path, *flags)), code, *parts)
    assert not list(tmp_path.glob("model.ckpt*"))
