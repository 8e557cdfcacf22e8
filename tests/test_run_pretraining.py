"""From plain text to a fine-tuned model, each step by its command; and faults."""

import collections
import json
import pathlib
import re
import shutil
import signal
from collections.abc import Iterator

import numpy as np
import pytest
import sentencepiece as spm
import tensorflow.compat.v1 as tf

from albert.core.errors import FlagError
from albert.tasks.pretraining.settings import PretrainingSettings
from albert.tasks.pretraining.task import PretrainingTask
from tests.helpers.checkpoints import weights
from tests.helpers.files import settings_of
from tests.helpers.running import albert, assert_fails, at_step, command_of, run, run_text, succeed
from tests.helpers.tiny_runs import write_topics

LENGTHS = "--max_seq_length=48", "--max_predictions_per_seq=6"


def make_data(text: pathlib.Path, records: pathlib.Path, *flags: str) -> None:
    files = f"--input_file={text}", f"--output_file={records}"
    succeed([*command_of("create_pretraining_data"), *files, *LENGTHS, *flags])


def pretraining(folder: pathlib.Path, output_dir: pathlib.Path, *flags: str) -> list[str]:
    """Returns the command of a short run; later flags win over earlier ones."""
    files = f"--input_file={folder}/train.tfrecord*", f"--eval_file={folder}/dev.tfrecord"
    files += f"--albert_config_file={folder}/albert.json", f"--output_dir={output_dir}"
    steps = "--train_batch_size=32", "--num_train_steps=160", "--num_warmup_steps=20"
    steps += "--optimizer=adamw", "--learning_rate=3e-3", "--remove_padding=false"
    program = [*command_of("run_pretraining"), "--do_train", "--do_eval"]
    return [*program, *files, *LENGTHS, *steps, *flags]


def results(folder: pathlib.Path) -> dict:
    return json.loads((folder / "eval_results.json").read_text())


def features_of(path: pathlib.Path) -> Iterator:
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        yield tf.train.Example.FromString(record).features.feature


def tokenizer_training(folder: pathlib.Path) -> list[str]:
    files = f"--input_file={folder}/t*.txt", f"--model_prefix={folder}/new/spm"
    return [*command_of("sentencepiece"), *files, "--vocab_size=70"]


@pytest.fixture(scope="module")
def walk(tmp_path_factory) -> pathlib.Path:
    """Returns a folder with text, a tokenizer, records and a pretrained model in `out`."""
    folder = tmp_path_factory.mktemp("walk")
    write_topics(folder / "train.txt", 1, 500)
    write_topics(folder / "dev.txt", 2, 60)
    succeed(tokenizer_training(folder))
    flags = f"--spm_model_file={folder}/new/spm.model", "--dupe_factor=5"
    make_data(folder / "train.txt", folder / "train.tfrecord", *flags)
    make_data(folder / "dev.txt", folder / "dev.tfrecord", *flags, "--dupe_factor=2")
    model = spm.SentencePieceProcessor(model_file=f"{folder}/new/spm.model")
    config = {"vocab_size": model.get_piece_size(), "max_position_embeddings": 64}
    config |= {"embedding_size": 32, "hidden_size": 48, "intermediate_size": 96}
    config |= {"num_hidden_layers": 2, "num_attention_heads": 2, "initializer_range": 0.1}
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.1}
    (folder / "albert.json").write_text(json.dumps(config))
    assert "random weights" not in succeed(pretraining(folder, folder / "out"))
    return folder


def test_the_tokenizer_has_a_vocabulary_and_is_reused(walk):
    path = walk / "new/spm.model"
    model = spm.SentencePieceProcessor(model_file=str(path))
    lines = (walk / "new/spm.vocab").read_text(encoding="utf-8").splitlines()
    pieces = [model.id_to_piece(i) for i in range(model.get_piece_size())]
    assert [line.split("\t")[0] for line in lines] == pieces
    before = path.stat().st_mtime_ns
    command = tokenizer_training(walk)
    assert f"Reusing {path}" in succeed(command)
    too_many = "train.txt: Vocabulary size too high (100000)"
    for size, code, fault in ((10**5, 1, too_many), (2**31, 2, "--vocab_size must be below")):
        assert_fails(run([*command, f"--vocab_size={size}"]), code, fault)
    assert path.stat().st_mtime_ns == before


@pytest.mark.each_python
def test_masked_tokens_are_predicted_from_their_neighbors(walk):
    counts = collections.Counter()
    for features in features_of(walk / "dev.tfrecord"):
        used = int(sum(features["masked_lm_weights"].float_list.value))
        counts.update(features["masked_lm_ids"].int64_list.value[:used])
    share = max(counts.values()) / counts.total()
    assert share < 0.25
    scores = results(walk / "out")
    assert scores["masked_lm_accuracy"] > 2 * share
    assert scores["masked_lm_perplexity"] == pytest.approx(np.exp(scores["masked_lm_loss"]))


def test_layers_of_a_bert_cannot_start_from_a_first_group(squad_dir):
    flags = f"--bert_config_file={squad_dir}/bert.json", "--input_file=x", "--do_train", *LENGTHS
    with pytest.raises(FlagError, match="--init_from_group0 is for ALBERT only"):
        PretrainingTask(settings_of(PretrainingSettings, *flags, "--init_from_group0"))


CONTRACT = """
import sys
from absl import flags
import run_pretraining
FLAGS = flags.FLAGS
FLAGS(["test"])
FLAGS.max_predictions_per_seq, FLAGS.max_seq_length, FLAGS.train_batch_size = 6, 48, 8
FLAGS.output_dir, FLAGS.albert_config_file, FLAGS.input_file = sys.argv[1:]
FLAGS.do_train = FLAGS.do_eval = True
FLAGS.num_train_steps = FLAGS.save_checkpoints_steps = FLAGS.max_eval_steps = 1
run_pretraining.main(None)
"""


@pytest.mark.slow
def test_main_runs_under_flags_that_a_program_sets(walk, tmp_path):
    """As the reference's own test calls it."""
    arguments = [tmp_path / "out", walk / "albert.json", walk / "dev.tfrecord"]
    result = run_text(tmp_path, CONTRACT, *map(str, arguments))
    assert result.returncode == 0, result.stderr
    names = {path.name for path in (tmp_path / "out").iterdir()}
    parts = "meta", "index", "data-00000-of-00001"
    assert {f"model.ckpt-{n}.{part}" for n in ("best", 1) for part in parts} <= names
    assert {"eval_results.txt", "checkpoint"} <= names


@pytest.mark.slow
def test_packed_rows_train_the_same_weights_after_a_kill(walk, tmp_path):
    steps = "--num_train_steps=8", "--save_checkpoints_steps=4", "--do_eval=false"
    flags = *steps, "--pack_sequences", "--deterministic_run"
    short = "--short_seq_prob=1", f"--spm_model_file={walk}/new/spm.model"
    make_data(walk / "dev.txt", tmp_path / "train.tfrecord", *short)
    shutil.copy(walk / "albert.json", tmp_path)
    whole = pretraining(tmp_path, tmp_path / "whole", *flags)
    checked = run([*albert("check"), *whole[1:]]).stdout
    said = re.search(r"(\d+) examples in (\d+) rows, [\d.]+ per row", checked)
    assert said and int(said[1]) > 1.2 * int(said[2])
    assert said[0] in succeed(whole)
    killed = pretraining(tmp_path, tmp_path / "killed", *flags)
    assert run(at_step("kill", 6, killed)).returncode == -signal.SIGKILL
    assert "from step 4 to 8" in succeed(killed)
    np.testing.assert_equal(*(weights(tmp_path / n, "model.ckpt-8") for n in ("whole", "killed")))
