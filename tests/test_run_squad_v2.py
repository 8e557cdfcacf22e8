"""Whole runs of run_squad_v2.py on a tiny SQuAD, as commands: what differs from SQuAD 1.1."""

from __future__ import annotations

import json
import pathlib
import signal
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from answering import load_model
from tests.helpers.checkpoints import weights
from tests.helpers.forking import ROOT
from tests.helpers.running import at_step, error_line, run, run_as_workers
from tests.helpers.squad import make_unanswerable, squad_command


@pytest.fixture(scope="module")
def folder(squad_dir, tmp_path_factory) -> pathlib.Path:
    """A folder with train.json and dev.json."""
    folder = tmp_path_factory.mktemp("squad_v2")
    for part in ("train", "dev"):
        make_unanswerable(squad_dir / f"{part}-v1.1.json", folder / f"{part}.json")
    return folder


@pytest.fixture(scope="module")
def command(squad_dir, folder):
    def command(output_dir: pathlib.Path, *flags: str) -> list[str]:
        files = [f"--train_file={folder / 'train.json'}", f"--predict_file={folder / 'dev.json'}"]
        python, _, *given = squad_command(squad_dir, output_dir, *files, *flags)
        return [python, str(ROOT / "run_squad_v2.py"), *given]

    return command


@pytest.fixture(scope="module")
def done(command, folder) -> pathlib.Path:
    """The output folder of a run that was killed at step 7 of 12, resumed, scored and exported."""
    flags = f"--export_dir={folder / 'export'}"
    job = command(folder / "out", flags)
    assert run(at_step("kill", 7, job)).returncode == -signal.SIGKILL
    result = run(job)
    assert result.returncode == 0, result.stderr
    assert "Training from step 5 to 12" in result.stderr
    return folder / "out"


def read(path: pathlib.Path) -> dict:
    return json.loads(path.read_text())


@pytest.mark.each_python
def test_resumed_as_if_it_had_not_been_killed(done, command, tmp_path):
    """With dropout, of the head too."""
    result = run(command(tmp_path, "--do_predict=false"))
    assert result.returncode == 0, result.stderr
    expected, found = (weights(f, "model.ckpt-12") for f in (tmp_path, done))
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_scores_are_the_official_scripts(done, folder):
    metrics = pytest.importorskip("transformers.data.metrics.squad_metrics")
    questions = [
        q for a in read(folder / "dev.json")["data"] for p in a["paragraphs"] for q in p["qas"]
    ]
    examples = [SimpleNamespace(qas_id=q["id"], answers=q["answers"]) for q in questions]
    answers, odds = (read(done / name) for name in ("predictions.json", "null_odds.json"))
    assert answers.keys() == odds.keys() == read(done / "nbest_predictions.json").keys()
    expected = dict(metrics.squad_evaluate(examples, answers))
    has_answer = {q["id"]: bool(q["answers"]) for q in questions}
    raw = metrics.get_raw_scores(examples, answers)
    metrics.find_all_best_thresh(expected, answers, *raw, odds, has_answer)
    results = read(done / "eval_results.json")
    assert {name: results[name] for name in expected} == pytest.approx(expected)
    assert expected["NoAns_total"] == 4 and expected["HasAns_total"] == 8
    assert results["best_f1"] == max(entry["best_f1"] for entry in results["history"])


def test_two_workers_give_the_same_answers(done, command, tmp_path, mpirun):
    checkpoint = f"--init_checkpoint={done / 'model.ckpt-best'}"
    result = run_as_workers(
        2,
        command(
            tmp_path, checkpoint, "--do_train=false", "--use_horovod", "--predict_batch_size=3"
        ),
    )
    assert result.returncode == 0, result.stderr
    assert read(tmp_path / "predictions.json") == read(done / "predictions.json")
    odds = [read(f / "null_odds.json") for f in (tmp_path, done)]
    assert odds[0] == pytest.approx(odds[1], abs=1e-5)


def test_an_exported_model_answers_as_the_run_did(done, folder):
    """It abstains by the threshold that the scores have told."""
    model = load_model(str(folder / "export"))
    paragraphs = [p for a in read(folder / "dev.json")["data"] for p in a["paragraphs"]]
    asked = {q["id"]: (q["question"], [p["context"]]) for p in paragraphs for q in p["qas"]}
    answered = dict(zip(asked, model.answer_all(list(asked.values())), strict=True))
    predictions, odds, nbest = (
        read(done / f"{name}.json") for name in ("predictions", "null_odds", "nbest_predictions")
    )
    texts = {i: "" if a.abstains else a.answers[0].text for i, a in answered.items()}
    assert texts == predictions
    assert {i: a.no_answer_odds for i, a in answered.items()} == pytest.approx(odds, abs=1e-5)
    for name, entries in nbest.items():
        found = [(a.text, a.probability) for a in answered[name].answers]
        assert [text for text, _ in found] == [e["text"] for e in entries]
        expected = [e["probability"] for e in entries]
        assert [p for _, p in found] == pytest.approx(expected, abs=1e-5)
    threshold = read(done / "eval_results.json")["best_f1_thresh"]
    for folder_of_model in (done, model.folder.path):
        described = read(pathlib.Path(folder_of_model, "assets.extra", "model.json"))
        assert described["no_answer_threshold"] == threshold


def test_exported_model(done, folder):
    """It finds the paragraph by the segments, and gives what prediction gave."""
    (model,) = (folder / "export" / "saved_model").iterdir()
    keys = ("input_ids", "input_mask", "segment_ids")
    records = tf.data.TFRecordDataset(str(done / "eval.tf_record"))
    features = [tf.train.Example.FromString(r.numpy()).features.feature for r in records]
    inputs = {key: np.int32([f[key].int64_list.value for f in features]) for key in keys}
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ["serve"], str(model)).signature_def[
            "serving_default"
        ]
        assert set(signature.inputs) == set(keys)
        feed = {signature.inputs[key].name: value for key, value in inputs.items()}
        found = session.run({name: output.name for name, output in signature.outputs.items()}, feed)
    assert found.keys() == {
        "start_top_log_probs",
        "start_top_index",
        "end_top_log_probs",
        "end_top_index",
        "cls_logits",
    }
    assert found["end_top_index"].shape == (len(features), 25)
    for odds in read(done / "null_odds.json").values():
        assert np.isclose(found["cls_logits"], odds, atol=1e-5).any()


def test_a_checkpoint_and_a_file_of_squad_1(trained, command, squad_dir, tmp_path):
    """The head is new, and it is said; nothing is unanswerable, which is said too."""
    flags = (
        f"--init_checkpoint={trained / 'model.ckpt-best'}",
        f"--train_file={squad_dir / 'train-v1.1.json'}",
        f"--predict_file={squad_dir / 'dev-v1.1.json'}",
        "--train_steps=2",
    )
    result = run(command(tmp_path, *flags))
    assert result.returncode == 0, result.stderr
    (line,) = (line for line in result.stderr.splitlines() if "variables taken" in line)
    assert "new: start_logits/dense/kernel" in line and "unused: cls/squad/output_bias" in line
    assert "train-v1.1.json has no unanswerable question" in result.stderr
    results = read(tmp_path / "eval_results.json")
    assert results["HasAns_total"] == results["total"] and "NoAns_f1" not in results


def test_more_starts_than_tokens(command, tmp_path):
    result = run(command(tmp_path, "--start_n_top=65"))
    assert result.returncode == 2
    assert "--start_n_top 65 is more than the --max_seq_length 64" in error_line(result)
