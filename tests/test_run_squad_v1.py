"""Whole runs of run_squad_v1.py on a tiny SQuAD, as commands, and what goes wrong with them."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf2
import tensorflow.compat.v1 as tf

from tests.helpers.checkpoints import weights
from tests.helpers.forking import ROOT
from tests.helpers.running import assert_fails, at_step, run
from tests.helpers.squad import squad_command


def results(folder: pathlib.Path) -> dict:
    return json.loads((folder / "eval_results.json").read_text())


@pytest.fixture
def copy_of_trained(trained, tmp_path):
    """A folder of one's own with what the shared run has written."""
    folder = tmp_path / "out"
    shutil.copytree(trained, folder)
    return folder


@pytest.mark.each_python
class TestOutputs:
    def test_files(self, trained):
        names = set(os.listdir(trained))
        assert names >= {
            "predictions.json",
            "nbest_predictions.json",
            "eval_results.json",
            "eval_results.txt",
            "run.json",
            "checkpoint",
            "train.tf_record",
            "eval.tf_record",
            "eval_left.npz",
        }
        for step in ("5", "10", "12", "best"):
            assert f"model.ckpt-{step}.index" in names
        assert "model.ckpt-0.index" not in names
        assert not [n for n in names if n.startswith(".")], "temporary files are left"

    def test_every_checkpoint_is_scored_and_the_best_is_kept(self, trained):
        record = results(trained)
        assert [entry["global_step"] for entry in record["history"]] == [5, 10, 12]
        best = max(record["history"], key=lambda entry: entry["f1"])
        for key in ("exact_match", "f1", "global_step", "checkpoint"):
            assert record[key] == best[key]
        assert record["init_checkpoint"] is None
        kept = weights(trained, "model.ckpt-best")
        for name, value in weights(trained, best["checkpoint"]).items():
            np.testing.assert_array_equal(kept[name], value)

    def test_every_question_has_an_answer(self, trained, squad_dir):
        dev = json.loads((squad_dir / "dev-v1.1.json").read_text())["data"]
        ids = [q["id"] for a in dev for p in a["paragraphs"] for q in p["qas"]]
        predictions = json.loads((trained / "predictions.json").read_text())
        nbest = json.loads((trained / "nbest_predictions.json").read_text())
        assert list(predictions) == list(nbest) == ids
        for qas_id, entries in nbest.items():
            assert predictions[qas_id] == entries[0]["text"]
            assert abs(sum(entry["probability"] for entry in entries) - 1) < 1e-6

    def test_curves(self, trained):
        def scalars(folder):
            found = {}
            for file in sorted(folder.glob("events*")):
                for event in tf.train.summary_iterator(str(file)):
                    for value in event.summary.value:
                        found.setdefault(value.tag, {})[event.step] = value.simple_value
            return found

        training = scalars(trained)
        assert set(training["loss"]) == set(training["learning_rate"]) == set(range(1, 13))
        assert all(rate > 0 for rate in training["examples_per_second"].values())
        assert all(0 < share < 1 for share in training["waiting_for_input"].values())
        scored = scalars(trained / "eval")
        history = {entry["global_step"]: entry for entry in results(trained)["history"]}
        for tag in ("exact_match", "f1"):
            assert scored[tag] == pytest.approx({s: e[tag] for s, e in history.items()})

    def test_schedule_follows_examples(self, trained):
        """48 examples, 2 epochs, 8 a step."""
        assert weights(trained)["global_step"] == 48 * 2 // 8


class TestAgain:
    @pytest.mark.each_python
    def test_the_same_command_ends_at_once(self, copy_of_trained, squad_dir):
        before = {f: f.stat().st_mtime_ns for f in copy_of_trained.rglob("*") if f.is_file()}
        result = run(squad_command(squad_dir, copy_of_trained))
        assert result.returncode == 0, result.stderr
        for file in ("train.tf_record", "eval.tf_record"):
            assert f"Reusing {copy_of_trained / file}" in result.stderr
        assert "Training is done already" in result.stderr
        assert "All 3 checkpoints are scored already" in result.stderr
        # At the beginning and below the scores.
        warnings = [line for line in result.stderr.splitlines() if " WARNING " in line]
        assert len(warnings) == 2
        assert all("--init_checkpoint is not given: this run starts" in w for w in warnings)
        assert result.stderr.endswith(warnings[1] + "\n")
        after = {f: f.stat().st_mtime_ns for f in copy_of_trained.rglob("*") if f.is_file()}
        assert after == before

    def test_other_flags_are_refused_by_name(self, trained, squad_dir):
        result = run(squad_command(squad_dir, trained, "--learning_rate=2e-3", "--seed=7"))
        assert_fails(
            result, 2, "--learning_rate (was 0.001, is 0.002)", "--seed", "--overwrite_output_dir"
        )

    def test_overwrite_starts_anew_and_leaves_other_files(self, copy_of_trained, squad_dir):
        (copy_of_trained / "notes.txt").write_text("mine")
        result = run(
            squad_command(squad_dir, copy_of_trained, "--overwrite_output_dir", "--train_steps=3")
        )
        assert result.returncode == 0, result.stderr
        assert (copy_of_trained / "notes.txt").read_text() == "mine"
        assert [entry["global_step"] for entry in results(copy_of_trained)["history"]] == [3]

    def test_a_lost_score_is_made_again(self, copy_of_trained, squad_dir):
        before = results(copy_of_trained)
        (copy_of_trained / "predictions.json").unlink()
        result = run(squad_command(squad_dir, copy_of_trained, "--from_scratch"))
        assert result.returncode == 0, result.stderr
        (warning,) = [line for line in result.stderr.splitlines() if " WARNING " in line]
        assert "predictions.json is missing or not what was written" in warning
        assert results(copy_of_trained) == before
        assert (copy_of_trained / "predictions.json").exists()

    def test_a_lost_state_file_does_not_start_anew(self, copy_of_trained, squad_dir):
        (copy_of_trained / "checkpoint").unlink()
        result = run(squad_command(squad_dir, copy_of_trained))
        assert result.returncode == 0, result.stderr
        assert "Training is done already: step 12 of 12" in result.stderr


class TestWithoutTraining:
    def test_scores_the_checkpoints_there_are(self, copy_of_trained, squad_dir):
        before = results(copy_of_trained)
        (copy_of_trained / "eval_results.json").unlink()
        result = run(squad_command(squad_dir, copy_of_trained, "--do_train=False"))
        assert "WARNING" not in result.stderr
        assert result.returncode == 0, result.stderr
        assert results(copy_of_trained)["history"] == before["history"]

    @pytest.mark.parametrize("suffix", ["", ".index"])
    def test_scores_an_initial_checkpoint(self, trained, squad_dir, tmp_path, suffix):
        checkpoint = trained / f"model.ckpt-best{suffix}"
        command = squad_command(
            squad_dir, tmp_path, "--do_train=False", f"--init_checkpoint={checkpoint}"
        )
        result = run(command)
        assert result.returncode == 0, result.stderr
        assert results(tmp_path)["f1"] == results(trained)["f1"]
        assert results(tmp_path)["init_checkpoint"] == str(checkpoint)

    def test_without_any_checkpoint(self, squad_dir, tmp_path):
        result = run(squad_command(squad_dir, tmp_path, "--do_train=False"))
        assert_fails(result, 1, str(tmp_path), "no checkpoint", "--init_checkpoint")

    def test_tasks_without_a_file_are_off(self, squad_dir, tmp_path):
        """--do_train and --do_predict are on by default; not typed, they need no file."""
        command = squad_command(squad_dir, tmp_path, "--train_steps=2")
        command = [flag for flag in command if not flag.startswith("--predict_file")]
        result = run(command)
        assert result.returncode == 0, result.stderr
        assert "--do_predict is off, because --predict_file is not given" in result.stderr
        assert (tmp_path / "model.ckpt-2.index").exists()
        assert not (tmp_path / "eval_results.json").exists()

    def test_a_file_without_answers_is_answered(self, trained, squad_dir, tmp_path):
        dev = json.loads((squad_dir / "dev-v1.1.json").read_text())
        for article in dev["data"]:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    del question["answers"]
        (tmp_path / "test.json").write_text(json.dumps(dev))
        command = squad_command(
            squad_dir,
            tmp_path / "out",
            "--do_train=False",
            f"--init_checkpoint={trained / 'model.ckpt-best'}",
            f"--predict_file={tmp_path / 'test.json'}",
        )
        result = run(command)
        assert result.returncode == 0, result.stderr
        predictions = (tmp_path / "out" / "predictions.json").read_text()
        assert predictions == (trained / "predictions.json").read_text()


class TestResume:
    """Without dropout, and with dropout whose masks are a function of seed and step."""

    FLAGS = ("--deterministic_run", "--deterministic_run=false")

    @pytest.fixture(scope="class")
    def command(self, squad_dir):
        steps = ("--train_steps=40", "--save_checkpoints_steps=10", "--do_predict=False")
        return lambda folder, flag: squad_command(squad_dir, folder, *steps, "--seed=5", flag)

    @pytest.fixture(scope="class")
    def whole(self, command, tmp_path_factory) -> dict[str, dict[str, np.ndarray]]:
        """The last weights of runs that nothing happened to, by their flag."""
        found = {}
        for flag in self.FLAGS:
            folder = tmp_path_factory.mktemp("whole")
            result = run(command(folder, flag))
            assert result.returncode == 0, result.stderr
            found[flag] = weights(folder, "model.ckpt-40")
        return found

    @pytest.mark.parametrize("flag", FLAGS)
    def test_killed_and_resumed_ends_with_the_same_bits(self, whole, command, tmp_path, flag):
        assert run(at_step("kill", 25, command(tmp_path, flag))).returncode == -signal.SIGKILL
        result = run(command(tmp_path, flag))
        assert result.returncode == 0, result.stderr
        assert "Training from step 20 to 40" in result.stderr
        actual = weights(tmp_path, "model.ckpt-40")
        assert whole[flag].keys() == actual.keys()
        for name, value in whole[flag].items():
            np.testing.assert_array_equal(actual[name], value, err_msg=name)

    def test_dropout_is_on_unless_deterministic(self, whole):
        """The two cases above would else be one."""
        first, second = whole.values()
        assert any((first[name] != second[name]).any() for name in first)


class TestNotFinite:
    def test_stops_and_keeps_the_last_good_checkpoint(self, squad_dir, tmp_path):
        command = squad_command(
            squad_dir, tmp_path, "--learning_rate=1e20", "--save_checkpoints_steps=1"
        )
        result = run(command)
        assert_fails(
            result, 1, "NaN or infinite at step", "last good checkpoint", "--learning_rate"
        )
        step = int(re.search(r"at step (\d+)", result.stderr).group(1))
        kept = weights(tmp_path, f"model.ckpt-{step}")
        assert all(np.isfinite(value).all() for value in kept.values())
        assert not (tmp_path / f"model.ckpt-{step + 1}.index").exists()


class TestBfloat16:
    """TF_BF16_CONVERSION; what it converts is tested in tests/runtime/bf16/test_conversion.py."""

    def run(self, conversion, command):
        return run(command, env={**os.environ, "TF_BF16_CONVERSION": conversion})

    @pytest.mark.each_python
    def test_checkpoints_fit_float32_and_back(self, trained, squad_dir, tmp_path):
        flags = ["--train_steps=2", "--do_predict=False"]
        there = [*flags, f"--init_checkpoint={trained / 'model.ckpt-best'}"]
        result = self.run("1", squad_command(squad_dir, tmp_path / "bf16", *there))
        assert result.returncode == 0, result.stderr
        assert re.search(r"bfloat16 by .*albert.json: \d+ of \d+", result.stderr)
        assert "27 variables taken; new: none" in result.stderr
        written = weights(tmp_path / "bf16", "model.ckpt-2")
        plain = weights(trained)
        assert {n: (v.shape, v.dtype) for n, v in written.items()} == {
            n: (v.shape, v.dtype) for n, v in plain.items()
        }
        back = [*flags, f"--init_checkpoint={tmp_path / 'bf16' / 'model.ckpt-2'}"]
        result = self.run("0", squad_command(squad_dir, tmp_path / "float32", *back))
        assert result.returncode == 0, result.stderr
        assert "27 variables taken; new: none" in result.stderr

    def test_it_is_part_of_what_shapes_a_run(self, trained, squad_dir):
        result = self.run("basic", squad_command(squad_dir, trained))
        assert_fails(result, 2, "bf16 configuration (was None, is sha256:")

    def test_a_file_that_is_missing(self, squad_dir, tmp_path):
        result = self.run("missing.json", squad_command(squad_dir, tmp_path / "out"))
        assert_fails(result, 1, "TF_BF16_CONVERSION", "missing.json cannot be read")
        assert not (tmp_path / "out").exists()


@pytest.mark.each_python
class TestExport:
    @pytest.mark.skipif(not hasattr(tf2, "lite"), reason="this TensorFlow has no tf.lite")
    def test_can_be_converted_for_tflite(self, exported):
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

    def test_answers_batches_of_any_size_like_prediction(self, trained, exported):
        records = tf.data.TFRecordDataset(str(trained / "eval.tf_record"))
        keys = ("input_ids", "input_mask", "segment_ids")
        rows = []
        for record in records:
            feature = tf.train.Example.FromString(record.numpy()).features.feature
            rows.append([list(feature[key].int64_list.value) for key in keys])
        inputs = np.array(rows, np.int32)
        nbest = json.loads((trained / "nbest_predictions.json").read_text())
        with tf.Graph().as_default(), tf.Session() as session:
            model = tf.saved_model.load(session, ["serve"], str(exported))
            signature = model.signature_def["serving_default"]
            assert set(signature.inputs) == set(keys)

            def scores(part):
                feed = {signature.inputs[k].name: part[:, i] for i, k in enumerate(keys)}
                names = ("start_log_prob", "end_log_prob")
                return session.run([signature.outputs[name].name for name in names], feed)

            starts, ends = scores(inputs)
            for first, size in ((0, 1), (1, 3), (4, 7)):
                part = scores(inputs[first : first + size])
                np.testing.assert_allclose(part[0], starts[first : first + size], atol=1e-5)
        # The n-best file holds scores of estimator.predict: the best must be among the model's.
        for entries in nbest.values():
            assert np.isclose(starts, entries[0]["start_log_prob"], atol=1e-5).any()
            assert np.isclose(ends, entries[0]["end_log_prob"], atol=1e-5).any()


def with_config(squad_dir: pathlib.Path, tmp_path: pathlib.Path, **changes) -> str:
    config = json.loads((squad_dir / "albert.json").read_text())
    path = tmp_path / "other.json"
    path.write_text(json.dumps({**config, **changes}))
    return f"--albert_config_file={path}"


class TestBadInput:
    """What a person gets wrong: one line that says what, where and what to do."""

    @pytest.mark.parametrize(
        ("flags", "parts"),
        [
            (["--use_tpu=true"], ["--use_tpu", "TPU"]),
            (["--from_scratch", "--init_checkpoint=x"], ["--from_scratch and --init_checkpoint"]),
            (["--albert_hub_module_handle=x"], ["--albert_hub_module_handle", "--init_checkpoint"]),
            (["--allreduce_dtype=bfloat16"], ["--allreduce_dtype", "HPU"]),
            (["--shard_optimizer=state"], ["--shard_optimizer=state", "--use_horovod=true"]),
            (["--gradient_accumulation_steps=0"], ["gradient_accumulation_steps"]),
            (["--no_such_flag=1"], ["no_such_flag"]),
            (["--max_seq_length=abc"], ["max_seq_length"]),
            (["--train_batch_size=0"], ["train_batch_size"]),
            (["stray"], ["stray"]),
            (["--max_seq_length=300"], ["--max_seq_length 300", "128 positions"]),
            (["--max_query_length=62"], ["--max_seq_length 64", "--max_query_length 62"]),
            (["--doc_stride=60"], ["--doc_stride 60", "skipped"]),
            (["--train_feature_file=/x", "--predict_feature_file=/x"], ["different files"]),
            (["--num_train_epochs=inf"], ["--num_train_epochs", "in the range"]),
            (["--warmup_proportion=nan"], ["--warmup_proportion", "finite"]),
            ([f"--train_batch_size={10**12}"], ["train_batch_size", str(10**12)]),
            ([f"--gradient_accumulation_steps={10**9}"], ["gradient_accumulation_steps"]),
            (["--spm_model_file="], ["--spm_model_file or --vocab_file is required"]),
            (["--do_train=true", "--train_file="], ["--do_train needs --train_file"]),
            (["--train_file=", "--predict_file="], ["nothing to do"]),
        ],
    )
    def test_flags_end_with_code_2(self, squad_dir, tmp_path, flags, parts):
        assert_fails(run(squad_command(squad_dir, tmp_path, *flags)), 2, *parts)
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        "flag",
        [
            "train_file",
            "predict_file",
            "albert_config_file",
            "spm_model_file",
            "vocab_file",
            "init_checkpoint",
        ],
    )
    def test_missing_files(self, squad_dir, tmp_path, flag):
        missing = tmp_path / "missing"
        result = run(squad_command(squad_dir, tmp_path / "out", f"--{flag}={missing}"))
        assert_fails(result, 1, str(missing))

    def test_config_and_tokenizer_of_different_models(self, squad_dir, tmp_path):
        flag = with_config(squad_dir, tmp_path, vocab_size=30000)
        assert_fails(run(squad_command(squad_dir, tmp_path, flag)), 1, "30000", "pieces")

    def test_heads_that_do_not_divide_the_hidden_size(self, squad_dir, tmp_path):
        flag = with_config(squad_dir, tmp_path, num_attention_heads=3)
        assert_fails(run(squad_command(squad_dir, tmp_path, flag)), 1, "hidden_size 32", "heads 3")

    def test_checkpoint_of_another_size(self, trained, squad_dir, tmp_path):
        flag = with_config(squad_dir, tmp_path, hidden_size=64)
        checkpoint = f"--init_checkpoint={trained / 'model.ckpt-best'}"
        result = run(squad_command(squad_dir, tmp_path / "out", flag, checkpoint))
        assert_fails(result, 2, "was trained with hidden_size 32, not the 64")

    def test_checkpoint_that_matches_nothing(self, squad_dir, tmp_path):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.get_variable("something/else", [3])
            session.run(tf.global_variables_initializer())
            tf.train.Saver().save(session, str(tmp_path / "other.ckpt"))
        checkpoint = f"--init_checkpoint={tmp_path / 'other.ckpt'}"
        result = run(squad_command(squad_dir, tmp_path / "out", checkpoint))
        assert_fails(result, 1, "something/else", "none of its")

    def test_a_dev_file_to_train_on(self, squad_dir, tmp_path):
        dev = json.loads((squad_dir / "dev-v1.1.json").read_text())
        answers = dev["data"][0]["paragraphs"][0]["qas"][0]["answers"]
        answers.append(answers[0])
        (tmp_path / "dev.json").write_text(json.dumps(dev))
        flag = f"--train_file={tmp_path / 'dev.json'}"
        assert_fails(run(squad_command(squad_dir, tmp_path / "out", flag)), 1, "dev file")
        assert not list((tmp_path / "out").iterdir()), "the right command must find a free folder"

    @pytest.mark.parametrize("flag", ["train_file", "predict_file"])
    def test_squad_2_is_refused_before_anything_is_written(self, squad_dir, tmp_path, flag):
        content = json.loads((squad_dir / "train-v1.1.json").read_text())
        question = content["data"][1]["paragraphs"][0]["qas"][2]
        question |= {"answers": [], "is_impossible": True}
        (tmp_path / "train-v2.0.json").write_text(json.dumps(content))
        job = squad_command(squad_dir, tmp_path / "out", f"--{flag}={tmp_path / 'train-v2.0.json'}")
        parts = f"--{flag} ", "holds 1 unanswerable questions", question["id"], "run_squad_v2.py"
        assert_fails(run(job), 1, *parts)
        assert not (tmp_path / "out").exists()
        checked = run([job[0], str(ROOT / "check_setup.py"), *job[1:]])
        assert checked.returncode == 1
        (line,) = (line for line in checked.stdout.splitlines() if line.startswith("FAILS"))
        assert all(part in line for part in parts)

    def test_a_wrong_file_does_not_cost_the_old_run(self, copy_of_trained, squad_dir, tmp_path):
        before = sorted(os.listdir(copy_of_trained))
        flags = ["--overwrite_output_dir", f"--predict_file={tmp_path / 'typo.json'}"]
        result = run(squad_command(squad_dir, copy_of_trained, *flags))
        assert_fails(result, 1, "typo.json")
        assert sorted(os.listdir(copy_of_trained)) == before

    def test_the_best_checkpoint_of_the_folder_to_start_from(self, copy_of_trained, squad_dir):
        (copy_of_trained / "run.json").unlink()
        flag = f"--init_checkpoint={copy_of_trained / 'model.ckpt-best'}"
        result = run(squad_command(squad_dir, copy_of_trained, flag))
        assert_fails(result, 2, "would be replaced", "--output_dir")

    def test_overwriting_does_not_remove_what_to_start_from(self, copy_of_trained, squad_dir):
        flags = [f"--init_checkpoint={copy_of_trained / 'model.ckpt-5'}", "--overwrite_output_dir"]
        result = run(squad_command(squad_dir, copy_of_trained, *flags))
        assert_fails(result, 2, "would be replaced or removed", "--output_dir")
        assert (copy_of_trained / "model.ckpt-5.index").exists()

    def test_an_output_folder_that_cannot_be_written(self, squad_dir, tmp_path):
        (tmp_path / "file").write_text("")
        result = run(squad_command(squad_dir, tmp_path / "file" / "out"))
        assert_fails(result, 1, "--output_dir", str(tmp_path / "file" / "out"))

    def test_faulty_questions_do_not_end_the_run(self, squad_dir, tmp_path):
        """Nor does a BERT with a WordPiece vocabulary, here of the other case."""
        train = json.loads((squad_dir / "train-v1.1.json").read_text())
        questions = [q for a in train["data"] for p in a["paragraphs"] for q in p["qas"]]
        questions[0]["answers"][0]["answer_start"] += 1
        questions[1]["question"] = "  "
        questions[2]["answers"] = []
        questions[3]["answers"][0]["text"] = ""
        (tmp_path / "train.json").write_text(json.dumps(train))
        dev = json.loads((squad_dir / "dev-v1.1.json").read_text())
        dev["data"][0]["paragraphs"][0]["context"] = "   "
        (tmp_path / "dev.json").write_text(json.dumps(dev))
        flags = [
            f"--{t}_file={tmp_path / n}"
            for t, n in (("train", "train.json"), ("predict", "dev.json"))
        ]
        flags += ["--spm_model_file=", f"--vocab_file={squad_dir / 'vocab.txt'}"]
        flags += ["--train_steps=2", "--do_lower_case=false"]
        flags += [f"--bert_config_file={squad_dir / 'bert.json'}"]
        result = run(squad_command(squad_dir, tmp_path / "out", *flags))
        assert result.returncode == 0, result.stderr
        assert re.search(r"vocab\.txt is uncased: .*; give --do_lower_case=true", result.stderr)
        for reason, question in zip(
            ("not at its answer_start", "question is empty", "no answer", "answer is empty"),
            questions,
            strict=False,
        ):
            assert re.search(rf"1 questions left out: .*{reason}: {question['id']}", result.stderr)
        predictions = json.loads((tmp_path / "out" / "predictions.json").read_text())
        assert [predictions[q["id"]] for q in dev["data"][0]["paragraphs"][0]["qas"]] == [
            "",
            "",
            "",
        ]
