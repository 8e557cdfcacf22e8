"""Whole runs of run_race.py on tiny data, as commands, and what goes wrong with them."""

from __future__ import annotations

import json
import pathlib
import shutil
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from answering import load_model
from looking.page import read_page
from race.examples import RaceProcessor
from tests.helpers.forking import ROOT
from tests.helpers.race import write_race
from tests.helpers.running import run, run_as_workers

# Words of one piece each, like the options.
WORDS = list("cmegbpta")
SIZES = {"embedding_size": 16, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
PARTS = ("train", "dev", "test")


@pytest.fixture(scope="module")
def folder(squad_dir, tmp_path_factory) -> pathlib.Path:
    """A folder with RACE and a tiny model's configuration without dropout."""
    folder = tmp_path_factory.mktemp("race")
    write_race(folder, WORDS, count=6)
    config = json.loads((squad_dir / "albert.json").read_text()) | SIZES
    config["hidden_dropout_prob"] = config["attention_probs_dropout_prob"] = 0.0
    (folder / "albert.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def command(folder, squad_dir):
    def command(output_dir: pathlib.Path, *flags: str) -> list[str]:
        return [
            sys.executable,
            str(ROOT / "run_race.py"),
            f"--data_dir={folder}",
            f"--albert_config_file={folder / 'albert.json'}",
            f"--spm_model_file={squad_dir / 'spm.model'}",
            f"--output_dir={output_dir}",
            *("--max_seq_length=24", "--max_qa_length=8", "--dropout_prob=0", "--from_scratch"),
            *("--train_batch_size=8", "--learning_rate=1e-3", "--train_step=4", "--warmup_step=1"),
            *("--save_checkpoints_steps=2", "--preprocess_workers=1"),
            *flags,
        ]

    return command


@pytest.fixture(scope="module")
def done(command, folder) -> pathlib.Path:
    """The output folder of a run that trained, scored, labelled and exported."""
    result = run(command(folder / "out", "--do_predict", f"--export_dir={folder / 'export'}"))
    assert result.returncode == 0, result.stderr
    return folder / "out"


def scores(folder: pathlib.Path) -> list[dict]:
    return json.loads((folder / "eval_results.json").read_text())["history"]


def weights(folder: pathlib.Path) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(folder / "model.ckpt-4"))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names if "adam" not in name}


def test_scores_and_files(done):
    assert [(entry["global_step"], entry.keys()) for entry in scores(done)] == [
        (step, {"eval_accuracy", "eval_loss", "global_step", "checkpoint"}) for step in (2, 4)
    ]
    assert all((done / f"{part}.tf_record").exists() for part in PARTS)
    view = read_page(str(done / "predictions.html"))
    best = max(entry["eval_accuracy"] for entry in scores(done))
    assert view["kind"] == "options"
    assert {len(sample["texts"]) for sample in view["samples"]} == {4}
    assert np.mean([sample["score"] for sample in view["samples"]]) == pytest.approx(best)
    assert {name for name in weights(done) if "bert" not in name} == {
        "output_weights",
        "output_bias",
        "global_step",
    }


def test_labels(done, folder):
    examples = RaceProcessor(True, True, False, False).get_test_examples(str(folder))
    probabilities = np.loadtxt(done / "test_results.tsv")
    header, *rows = (done / "submit_results.tsv").read_text().splitlines()
    assert header == "index\tprediction"
    assert rows == [
        f"{example.example_id}\t{'ABCD'[row.argmax()]}"
        for example, row in zip(examples, probabilities, strict=True)
    ]
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)


def test_an_exported_model_chooses_as_the_run_did(done, folder):
    model, rows = load_model(str(folder / "export")), []
    for path in sorted((folder / "RACE" / "test" / "middle").iterdir()):
        passage = json.loads(path.read_text())
        for question, options in zip(passage["questions"], passage["options"], strict=True):
            chosen = model.choose(passage["article"], question, options)
            assert chosen.label == max(chosen.probabilities, key=chosen.probabilities.get)
            rows.append(list(chosen.probabilities.values()))
    np.testing.assert_allclose(rows, np.loadtxt(done / "test_results.tsv")[: len(rows)], atol=1e-5)


def test_the_exported_model_is_the_one_that_labelled(done, folder, squad_dir):
    (exported,) = (folder / "export" / "saved_model").iterdir()
    model = tf.saved_model.load_v2(str(exported)).signatures["serving_default"]
    records = list(tf.io.tf_record_iterator(str(done / "test.tf_record")))
    keys = ("input_ids", "input_mask", "segment_ids")
    spec = {key: tf.io.FixedLenFeature([4, 24], tf.int64) for key in keys}
    with tf.Graph().as_default(), tf.Session() as session:
        batch = session.run(tf.io.parse_example(records, spec))
    # As long as need be, and no longer.
    length = batch["input_mask"].sum(axis=-1).max()
    given = {key: tf.constant(value[..., :length], tf.int32) for key, value in batch.items()}
    found = model(**given)["probabilities"].numpy()
    np.testing.assert_allclose(found, np.loadtxt(done / "test_results.tsv"), atol=1e-6)


def test_a_resumed_run_ends_as_one_that_was_not_stopped(command, done, tmp_path):
    stopped = tmp_path / "out"
    shutil.copytree(done, stopped)
    for path in [*stopped.glob("model.ckpt-4.*"), *stopped.glob("eval*")]:
        path.unlink() if path.is_file() else shutil.rmtree(path)
    result = run(command(stopped, "--do_predict"))
    assert result.returncode == 0, result.stderr
    assert "Training from step 2 to 4" in result.stderr
    assert result.stderr.count("Reusing") >= len(PARTS)
    for name, value in weights(done).items():
        np.testing.assert_array_equal(weights(stopped)[name], value)
    assert scores(stopped) == scores(done)


def test_two_workers(command, done, tmp_path, mpirun):
    """They share out what one would do: the same records, and so the same weights and labels."""
    flags = ["--use_horovod=true", "--train_batch_size=4", "--do_predict"]
    result = run_as_workers(2, command(tmp_path / "out", *flags))
    assert result.returncode == 0, result.stderr
    for name, value in weights(done).items():
        np.testing.assert_allclose(weights(tmp_path / "out")[name], value, atol=1e-5)
    labels = [np.loadtxt(folder / "test_results.tsv") for folder in (done, tmp_path / "out")]
    np.testing.assert_allclose(*labels, atol=1e-4)


def test_check_setup(command, tmp_path):
    _, *rest = command(tmp_path / "out")
    result = run([sys.executable, str(ROOT / "check_setup.py"), *rest])
    assert result.returncode == 0, result.stdout
    rows = result.stdout.splitlines()
    assert any("labels" in row and "A, B, C, D" in row for row in rows)
    assert any("train examples" in row and row.endswith(" 24") for row in rows)
    assert rows[-1] == "the job can run"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--max_seq_length=11"], "--max_seq_length 11 must be more than --max_qa_length 8 + 3"),
        (["--high_only", "--middle_only"], "--high_only and --middle_only leave nothing"),
        (["--task_name=mrpc"], "--task_name=mrpc"),
        (["--do_train=false", "--do_eval=false"], "nothing to do"),
        (["--data_dir=README.md"], "README.md is no folder"),
        (["--data_dir=docs"], "docs/RACE/train/middle has no .txt file of RACE"),
        (["--train_file=README.md"], "README.md exists and is no file of features of length 24"),
    ],
)
def test_what_does_not_fit(command, tmp_path, flags, words):
    result = run(command(tmp_path / "out", *flags), cwd=ROOT)
    assert result.returncode in (1, 2)
    assert "Traceback" not in result.stderr
    (error,) = (line for line in result.stderr.splitlines() if ": error: " in line)
    assert words in error


def test_it_learns(command, tmp_path):
    """Which of four words is always right, wherever it stands."""
    write_race(tmp_path, WORDS, count=40)
    flags = ["--train_step=60", "--warmup_step=5", "--learning_rate=3e-3", "--middle_only"]
    steps = ["--save_checkpoints_steps=60", f"--data_dir={tmp_path}"]
    result = run(command(tmp_path / "out", *flags, *steps))
    assert result.returncode == 0, result.stderr
    assert scores(tmp_path / "out")[-1]["eval_accuracy"] > 0.95
