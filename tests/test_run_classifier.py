"""Whole runs of run_classifier.py on tiny data, as commands, and what goes wrong with them."""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from answering import load_model
from classification.metrics import accuracy
from looking.page import read_page
from tests.helpers.forking import ROOT
from tests.helpers.glue import LABELS, ROWS, write_all
from tests.helpers.running import run, run_as_workers
from weights.convert import Options, to_transformers

# Words of one piece each.
WORDS = list("nrlscmegbpta")
TINY = {
    "embedding_size": 8,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}
# Folders of the tasks.
TASKS = {"mrpc": "MRPC", "sts-b": "STS-B", "mnli": "MNLI", "ax": "diagnostic"}


def write_config(path: pathlib.Path, sizes: dict, vocab_size: int) -> pathlib.Path:
    path.write_text(json.dumps({"vocab_size": vocab_size, **sizes}))
    return path


@pytest.fixture(scope="module")
def common(squad_dir, tmp_path_factory) -> list[str]:
    """Flags of a tiny model and its tokenizer."""
    vocab_size = json.loads((squad_dir / "albert.json").read_text())["vocab_size"]
    folder = tmp_path_factory.mktemp("model")
    return [
        f"--albert_config_file={write_config(folder / 'albert.json', TINY, vocab_size)}",
        f"--spm_model_file={squad_dir / 'spm.model'}",
        "--max_seq_length=32",
        "--train_batch_size=8",
        "--learning_rate=2e-3",
    ]


BF16 = "TF_BF16_CONVERSION"


def command(*flags: str) -> list[str]:
    return [sys.executable, str(ROOT / "run_classifier.py"), *flags]


def succeed(*flags: str) -> None:
    result = run(command(*flags))
    assert result.returncode == 0, result.stderr


def results(folder: pathlib.Path) -> dict:
    return json.loads((folder / "eval_results.json").read_text())


def table(path: pathlib.Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


def error_of(result: subprocess.CompletedProcess) -> str:
    """The one line that an error consists of; no traceback may be there."""
    assert "Traceback" not in result.stderr, result.stderr
    (line,) = (line for line in result.stderr.splitlines() if ": error: " in line)
    return line


class TestTasks:
    """One of each kind; what the others have of their own is in `tests.glue.test_tasks`."""

    # The last is one's own task of regression.
    SCORES = {
        "mrpc": {"eval_accuracy", "f1"},
        "sts-b": {"pearson", "spearman", "MSE"},
        "mnli": {"eval_accuracy"},
        "tsv": {"pearson", "spearman", "MSE"},
    }

    @pytest.fixture(scope="class")
    def out(self, common, squad_dir, tmp_path_factory):
        """The output folders of all tasks, each trained for two steps."""
        folder = tmp_path_factory.mktemp("tasks")
        data_dir = folder / "data"
        data_dir.mkdir()
        write_all(data_dir, WORDS)
        rows = "".join(f"{number / 4}\t{word} a\tb\n" for number, word in enumerate(WORDS))
        for part in ("train", "dev", "test"):
            (data_dir / f"{part}.tsv").write_text(f"label\ttext_a\ttext_b\n{rows}")

        def flags(task: str, *more: str) -> list[str]:
            own = [f"--task_name={task}", f"--output_dir={folder / task}", *more]
            return [*common, f"--data_dir={data_dir}", "--do_predict", "--train_step=2", *own]

        runs = [flags(task, "--do_train", "--do_eval") for task in self.SCORES]
        # The first is a BERT's.
        runs[0] += ["--spm_model_file=", f"--vocab_file={squad_dir / 'vocab.txt'}"]
        runs[0] += [f"--bert_config_file={squad_dir / 'bert.json'}"]
        runs[-1].append("--tsv_regression")
        # As GLUE has it: the diagnostic set is labelled by the model of MNLI.
        ax = flags("ax", f"--init_checkpoint={folder / 'mnli' / 'model.ckpt-best'}")
        for own in [*runs, ax]:
            succeed(*own)
        return folder

    @pytest.mark.parametrize(
        ("task", "file", "columns"),
        [
            ("mrpc", "MRPC/test.tsv", ("#1 String", "#2 String")),
            ("sts-b", "STS-B/test.tsv", ("sentence1", "sentence2")),
            ("tsv", "test.tsv", ("text_a", "text_b")),
        ],
    )
    def test_the_model_says_what_the_run_wrote(self, out, task, file, columns):
        """Labels, with WordPiece; numbers within limits, and without."""
        model = load_model(str(out / task))
        header, *rows = table(out / "data" / file)
        first, second = map(header.index, columns)
        found = model.classify_all([(row[first], row[second]) for row in rows])
        expected = [answer for _, answer in table(out / task / "submit_results.tsv")[1:]]
        if task == "mrpc":
            assert [labelled.label for labelled in found] == expected
        else:
            numbers = [labelled.number for labelled in found]
            assert numbers == pytest.approx(list(map(float, expected)), abs=1e-5)
            assert found[0].label is None and model.labels == [None]

    @pytest.mark.parametrize("task", SCORES)
    def test_is_trained_and_scored(self, out, task):
        scores, found = self.SCORES[task], results(out / task)
        assert {name for name, value in found.items() if isinstance(value, float)} == {
            *scores,
            "eval_loss",
        }
        assert found["global_step"] == 2
        view = read_page(str(out / task / "predictions.html"))
        if "eval_accuracy" in scores:
            shown = [sample["score"] for sample in view["samples"]]
            assert np.mean(shown) == pytest.approx(found["eval_accuracy"])
        else:
            pairs = np.array([(s["truth"], s["answer"]) for s in view["samples"]])
            mse = np.mean((pairs[:, 0] - pairs[:, 1]) ** 2)
            assert view["kind"] == "numbers" and mse == pytest.approx(found["MSE"], abs=1e-3)
        assert all(np.isfinite(found[name]) for name in scores)
        assert (out / task / "model.ckpt-best.index").exists()

    def test_a_bert_is_saved_under_googles_names(self, out):
        reader = tf.train.load_checkpoint(str(out / "mrpc" / "model.ckpt-best"))
        names = reader.get_variable_to_shape_map().keys()
        assert {"bert/encoder/layer_1/attention/self/query/kernel", "output_weights"} <= names
        assert not [name for name in names if "group_" in name]

    @pytest.mark.parametrize("task", ["mrpc", "sts-b"])
    def test_labels_are_the_same_in_transformers(self, out, task, tmp_path):
        """MRPC's model is a BERT, the other one an ALBERT for a number."""
        torch = pytest.importorskip("torch", reason="torch is not installed")
        transformers = pytest.importorskip("transformers")
        to_transformers(str(out / task), str(tmp_path / "there"), Options())
        model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "there")
        names = {"input_ids": "input_ids", "attention_mask": "input_mask"}
        names["token_type_ids"] = "segment_ids"
        records = tf.python_io.tf_record_iterator(str(out / task / "predict.tf_record"))
        features = [tf.train.Example.FromString(record).features.feature for record in records]
        inputs = {
            theirs: torch.tensor([list(f[ours].int64_list.value) for f in features[:ROWS]])
            for theirs, ours in names.items()
        }
        with torch.no_grad():
            logits = model.eval()(**inputs).logits
        found = np.array(table(out / task / "test_results.tsv"), float)
        scores = logits if task == "sts-b" else logits.softmax(-1)
        np.testing.assert_allclose(scores.numpy(), found, atol=1e-4)
        if task == "mrpc":
            _, *rows = table(out / task / "submit_results.tsv")
            labels = [model.config.id2label[number] for number in logits.argmax(-1).tolist()]
            assert labels == [label for _, label in rows]

    def test_the_checkpoint_of_the_other_model(self, out, common, tmp_path):
        own = ["--task_name=mnli", f"--data_dir={out / 'data'}", f"--output_dir={tmp_path / 'out'}"]
        bert = f"--init_checkpoint={out / 'mrpc' / 'model.ckpt-best'}"
        result = run(command(*common, *own, "--do_train", bert))
        assert result.returncode == 2
        assert "was trained with a BERT, not an ALBERT" in error_of(result)

    def test_a_model_of_other_labels(self, out, common, tmp_path):
        own = ["--task_name=rte", f"--data_dir={out / 'data'}", f"--output_dir={tmp_path / 'out'}"]
        own = [*common, *own]
        mnli = f"--init_checkpoint={out / 'mnli' / 'model.ckpt-best'}"
        result = run(command(*own, "--do_predict", mnli))
        assert result.returncode == 1
        error = error_of(result)
        assert "was trained for the labels contradiction, entailment, neutral" in error
        assert "not for --task_name=rte with the labels entailment, not_entailment" in error
        # Without the run beside it, its shapes tell.
        for path in (out / "mnli").glob("model.ckpt-best.*"):
            shutil.copy(path, tmp_path)
        for more in ("--do_predict", f"--export_dir={tmp_path / 'export'}"):
            flags = [*own, more, f"--init_checkpoint={tmp_path / 'model.ckpt-best'}"]
            result = run(command(*flags))
            assert result.returncode == 1
            assert "output_weights [3, 16] (the model has [2, 16])" in error_of(result)

    @pytest.mark.parametrize("task", TASKS)
    def test_submission(self, out, task):
        header, *rows = table(out / task / "submit_results.tsv")
        probabilities = np.array(table(out / task / "test_results.tsv"), float)
        assert header == ["index", "prediction"]
        assert [row[0] for row in rows] == [str(number) for number in range(ROWS)]
        if task == "sts-b":
            numbers = [float(number) for _, number in rows]
            assert probabilities.shape == (ROWS, 1)
            np.testing.assert_array_equal(numbers, probabilities[:, 0].clip(0, 5))
        else:
            labels = list(LABELS[TASKS[task]])
            assert [label for _, label in rows] == [labels[n] for n in probabilities.argmax(axis=1)]
            assert probabilities.shape == (ROWS, len(labels))
            np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)


class TestSeparable:
    """A task that can be learned: one of two words is in every text, and the label says which."""

    KEY_WORDS = {"left": "n", "right": "r"}
    FLAGS = ["--task_name=tsv", "--do_train", "--do_eval", "--do_predict"]

    @staticmethod
    def examples(seed: int, count: int) -> list[dict]:
        rng, found = random.Random(seed), []
        for _ in range(count):
            label, word = rng.choice(list(TestSeparable.KEY_WORDS.items()))
            words = rng.choices(WORDS[2:], k=5)
            words.insert(rng.randrange(6), word)
            found.append({"label": label, "text_a": " ".join(words)})
        return found

    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory):
        """Training as TSV, development as JSONL, the test set as TSV without labels."""
        folder = tmp_path_factory.mktemp("separable")
        train, dev, test = self.examples(1, 400), self.examples(2, 100), self.examples(3, 60)
        rows = "".join(f"{e['text_a']}\t{e['label']}\n" for e in train)
        (folder / "train.tsv").write_text("text_a\tlabel\n" + rows)
        (folder / "dev.jsonl").write_text("".join(json.dumps(e) + "\n" for e in dev))
        (folder / "test.tsv").write_text("text_a\n" + "".join(e["text_a"] + "\n" for e in test))
        return folder

    @pytest.fixture(scope="class")
    def command(self, folder, common, squad_dir):
        # With some seeds it takes twice as many steps.
        flags = [f"--data_dir={folder}", f"--output_dir={folder / 'out'}", "--seed=1"]
        config = f"--albert_config_file={squad_dir / 'albert.json'}"
        steps = ["--train_step=150", "--train_batch_size=32", "--save_checkpoints_steps=50"]
        steps += ["--warmup_step=10"]
        export = [f"--export_dir={folder / 'export'}", "--threshold_to_export=0.75"]
        kept = ["--keep_checkpoint_max=2"]
        return command(*self.FLAGS, *flags, *common, config, *steps, *export, *kept)

    @pytest.fixture(scope="class")
    def done(self, folder, command):
        result = run(command)
        assert result.returncode == 0, result.stderr
        return folder / "out"

    @pytest.mark.each_python
    def test_is_learned(self, done):
        assert results(done)["eval_accuracy"] > 0.95

    @pytest.mark.each_python
    def test_test_set_is_labelled(self, done):
        _, *rows = table(done / "submit_results.tsv")
        found = np.array([label for _, label in rows])
        expected = np.array([example["label"] for example in self.examples(3, 60)])
        assert accuracy(expected, found) > 0.95

    def test_last_checkpoints_and_the_best_stay(self, done):
        """All three are scored before one goes."""
        names = {path.stem for path in done.glob("model.ckpt-*.index")}
        assert names == {"model.ckpt-100", "model.ckpt-150", "model.ckpt-best"}
        assert [entry["global_step"] for entry in results(done)["history"]] == [50, 100, 150]

    def test_the_same_command_ends_at_once(self, done, command):
        files = [path for path in done.rglob("*") if path.is_file()]
        before = {path: path.stat().st_mtime_ns for path in files}
        result = run([*command, "--export_dir="])
        assert result.returncode == 0, result.stderr
        assert "Training is done already" in result.stderr
        assert result.stdout.count("  predicted ") == 3
        last = f"All 100 of them are in {done / 'predictions.html'}, a page for a browser."
        assert result.stdout.splitlines()[-1] == last
        assert "All 3 checkpoints are scored already" in result.stderr
        assert result.stderr.count("WARNING --init_checkpoint is not given") == 2
        assert "Reusing" in result.stderr
        assert {path: path.stat().st_mtime_ns for path in files} == before

    def test_labelling_needs_the_test_set_alone(self, done, folder, common, squad_dir, tmp_path):
        """The labels are those that the model was trained for, also if the data has others now."""
        shutil.copytree(done, tmp_path / "out")
        (tmp_path / "out" / "test_results.tsv").unlink()
        shutil.copy(folder / "test.tsv", tmp_path)
        config = f"--albert_config_file={squad_dir / 'albert.json'}"
        flags = ["--task_name=tsv", f"--data_dir={tmp_path}", f"--output_dir={tmp_path / 'out'}"]
        flags = [*common, config, *flags, "--do_predict"]
        succeed(*flags)
        expected = table(done / "test_results.tsv")
        assert table(tmp_path / "out" / "test_results.tsv") == expected
        (tmp_path / "train.tsv").write_text("text_a\tlabel\nbo\ta\nra\tb\nti\tc\n")
        (tmp_path / "out" / "test_results.tsv").unlink()
        succeed(*flags)
        assert table(tmp_path / "out" / "test_results.tsv") == expected

    @pytest.mark.usefixtures("mpirun")
    def test_two_workers_label_with_a_model_from_elsewhere(
        self, done, folder, common, squad_dir, tmp_path
    ):
        shutil.copy(folder / "test.tsv", tmp_path)
        config = f"--albert_config_file={squad_dir / 'albert.json'}"
        flags = ["--task_name=tsv", f"--data_dir={tmp_path}", f"--output_dir={tmp_path / 'out'}"]
        model = f"--init_checkpoint={done / 'model.ckpt-best'}"
        job = command(*common, config, *flags, model, "--do_predict", "--use_horovod=true")
        result = run_as_workers(2, job)
        assert result.returncode == 0, result.stderr
        assert table(tmp_path / "out" / "test_results.tsv") == table(done / "test_results.tsv")

    def test_predictions_of_another_precision_are_others(self, done, command, tmp_path):
        shutil.copytree(done, tmp_path / "out")
        out = [f"--output_dir={tmp_path / 'out'}", "--do_train=false", "--do_eval=false"]
        result = run([*command, *out, "--export_dir="], env={**os.environ, BF16: "1"})
        assert result.returncode == 0, result.stderr
        assert "bf16 configuration" in result.stderr
        assert table(tmp_path / "out" / "test_results.tsv") != table(done / "test_results.tsv")

    def test_scoring_alone_removes_nothing(self, done, command, tmp_path):
        shutil.copytree(done, tmp_path / "out")
        out = [f"--output_dir={tmp_path / 'out'}", "--do_train=false", "--do_predict=false"]
        result = run([*command, *out, "--export_dir=", "--keep_checkpoint_max=1"])
        assert result.returncode == 0, result.stderr
        names = {path.stem for path in (tmp_path / "out").glob("model.ckpt-*.index")}
        assert {"model.ckpt-100", "model.ckpt-150", "model.ckpt-best"} <= names

    @pytest.mark.each_python
    def test_an_exported_model_labels_as_the_run_did(self, done, folder):
        examples = self.examples(3, 60)
        expected = np.array(table(done / "test_results.tsv"), float)
        for path in (done, folder / "export"):
            model = load_model(str(path))
            pairs = [(example["text_a"], example.get("text_b", "")) for example in examples]
            found = model.classify_all(pairs)
            probabilities = [list(labelled.probabilities.values()) for labelled in found]
            np.testing.assert_allclose(probabilities, expected, atol=1e-5)
            labels = [label for _, label in table(done / "submit_results.tsv")[1:]]
            assert [labelled.label for labelled in found] == labels

    def test_export_gives_what_prediction_gives(self, done, folder):
        (exported,) = (folder / "export" / "saved_model").iterdir()
        keys = ("input_ids", "input_mask", "segment_ids")
        inputs = {key: [] for key in keys}
        for record in tf.python_io.tf_record_iterator(str(done / "predict.tf_record")):
            feature = tf.train.Example.FromString(record).features.feature
            for key in keys:
                inputs[key].append(list(feature[key].int64_list.value))
        with tf.Graph().as_default(), tf.Session() as session:
            signature = tf.saved_model.load(session, ["serve"], str(exported)).signature_def
            signature = signature["serving_default"]
            assert set(signature.inputs) == set(keys)
            feed = {signature.inputs[key].name: value for key, value in inputs.items()}
            names = {name: tensor.name for name, tensor in signature.outputs.items()}
            values = session.run(names, feed)
        assert set(values) == {"probabilities", "predictions", "logits", "threshold"}
        assert values["threshold"] == 0.75
        expected = np.array(table(done / "test_results.tsv"), float)
        np.testing.assert_allclose(values["probabilities"], expected, atol=1e-5)

    def test_ready_training_features(self, done, folder, command, tmp_path):
        """From a folder of their own, without a header, as the Habana fork's --input_file."""
        (tmp_path / "ready").mkdir()
        shutil.copy(done / "tsv_train.tf_record", tmp_path / "ready" / "train.tf_record")
        flags = [f"--output_dir={tmp_path / 'out'}", "--train_step=2", "--do_predict=false"]
        flags += ["--do_eval=false", "--export_dir=", f"--input_file={tmp_path / 'ready'}"]
        result = run([*command, *flags])
        assert result.returncode == 0, result.stderr
        assert f"{tmp_path / 'ready' / 'train.tf_record'} has no header of ours" in result.stderr
        assert not list((tmp_path / "out").glob("*train.tf_record"))

    def test_runs_and_files_of_others_are_not_replaced(self, done, command, tmp_path):
        shutil.copytree(done, tmp_path / "out")
        (tmp_path / "out" / "test_results.tsv.json").unlink()
        other = run([*command, "--optimizer=lamb", "--warmup_step=5"])
        assert other.returncode == 2
        assert "--optimizer (was adamw, is lamb), --warmup_step (was 10, is 5)" in error_of(other)
        foreign = run([*command, f"--output_dir={tmp_path / 'out'}"])
        assert foreign.returncode == 1
        expected = "submit_results.tsv exists and was not written by this program"
        assert expected in error_of(foreign)


class TestMrpc:
    """The real data in full; a small model from scratch learns little of it."""

    @pytest.fixture(scope="class")
    def flags(self, shared, tmp_path_factory):
        folder = tmp_path_factory.mktemp("mrpc")
        script = [sys.executable, str(ROOT / "download" / "download_glue_data.py")]
        raw = folder / "raw"
        shutil.copytree(shared / "data" / "mrpc", raw)
        (raw / "mrpc_dev_ids.tsv").write_text(self.every_tenth(raw / "msr_paraphrase_train.txt"))
        result = run([*script, f"--data_dir={folder}", "--tasks=MRPC", f"--path_to_mrpc={raw}"])
        assert result.returncode == 0, result.stderr
        return [
            "--task_name=MRPC",
            f"--data_dir={folder}",
            f"--albert_config_file={write_config(folder / 'albert.json', TINY, 8000)}",
            f"--spm_model_file={shared / 'data' / 'spm' / 'en8k.model'}",
            "--max_seq_length=64",
            "--num_train_epochs=1",
            "--warmup_proportion=0.1",
            "--learning_rate=1e-3",
            "--eval_batch_size=64",
            *("--do_train", "--do_eval", "--do_predict"),
        ]

    @staticmethod
    def every_tenth(train_file: pathlib.Path) -> str:
        rows = table(train_file)[1::10]
        return "".join(f"{first}\t{second}\n" for _, first, second, *_ in rows)

    @pytest.mark.parametrize("workers", [1, 2])
    def test_trains_evaluates_predicts_and_exports(self, flags, mpirun, tmp_path, workers):
        batch = f"--train_batch_size={64 // workers}"
        out = [f"--output_dir={tmp_path / 'out'}", f"--export_dir={tmp_path / 'export'}"]
        whole = command(*flags, *out, batch)
        if workers == 1:
            result = run(whole)
        else:
            result = run_as_workers(workers, [*whole, "--use_horovod=true"])
        assert result.returncode == 0, result.stderr
        found = results(tmp_path / "out")
        train, dev, test = (
            len(table(pathlib.Path(flags[1].split("=")[1]) / "MRPC" / f"{part}.tsv")) - 1
            for part in ("train", "dev", "test")
        )
        assert (train, dev, test) == (3640, 405, 1713)
        assert found["global_step"] == train // 64 == 56
        assert "Training from step 0 to 56, 5 of them warmup, global batch size 64" in result.stderr
        # Two thirds of the pairs are paraphrases.
        assert found["eval_accuracy"] > 0.6
        assert found["f1"] > 0.7
        assert found["eval_loss"] < 0.69
        assert len(table(tmp_path / "out" / "submit_results.tsv")) == test + 1
        (exported,) = (tmp_path / "export" / "saved_model").iterdir()
        assert (exported / "saved_model.pb").exists()


class TestBadInput:
    HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    # Flags, the exit code, and what the error says.
    FAULTS = [
        (["--task_name=SST"], 2, "--task_name=SST is no task; there are cola, mnli, mismnli, mrpc"),
        (["--data_dir="], 2, "--data_dir is required"),
        (["--do_train=false"], 2, "nothing to do: give --do_train"),
        (["--max_seq_length=65"], 2, "--max_seq_length 65 is more than the 64 positions"),
        (["--tsv_regression"], 2, "--tsv_regression is for --task_name=tsv only"),
        (["--learning_rate=inf"], 2, "--learning_rate must be a finite number"),
        (["--data_dir=no/such"], 1, "--data_dir no/such is no folder"),
        (["--do_eval"], 1, "dev.tsv cannot be read: No such file"),
        (["--num_train_epochs=2"], 1, "1 examples are less than one step of 8"),
        (["--train_step=0"], 2, "--train_step must be positive, not 0"),
        (["--train_step=-3"], 2, "--train_step must be positive, not -3"),
        (["--task_name=ax"], 1, "diagnostic has no train set, only test"),
        (["--task_name=cola"], 1, "CoLA/train.tsv, line 2: 3 columns, 4 are needed"),
        (["--task_name=rte"], 1, "RTE/train.tsv, line 2: the label is '1', not one of entailment"),
        (["--task_name=qnli"], 1, "QNLI/train.tsv has no examples"),
        (["--task_name=sst-2"], 1, "SST-2/train.tsv, line 2: byte 2 of the line is not UTF-8"),
        (["--do_train=false", "--do_predict"], 1, "has no checkpoint; train first, or give"),
    ]

    @pytest.fixture(scope="class")
    def flags(self, common, tmp_path_factory):
        folder = tmp_path_factory.mktemp("bad")
        for name, content in {
            "MRPC/train.tsv": self.HEADER + "1\ta\tb\tbo ra\tti\n",
            "MRPC/test.tsv": self.HEADER + "0\ta\tb\tbo ra\tti\n",
            "CoLA/train.tsv": "x\t1\t\tbo\nx\t1\tbo\n",
            "RTE/train.tsv": "index\tsentence1\tsentence2\tlabel\n0\tbo\tra\t1\n",
            "QNLI/train.tsv": "",
            "SST-2/train.tsv": "sentence\tlabel\nf\xfcr\t1\n",
        }.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content.encode("latin-1"))
        out = f"--output_dir={folder / 'out'}"
        return [*common, "--task_name=MRPC", f"--data_dir={folder}", "--do_train", out]

    @pytest.mark.parametrize(("more", "code", "part"), FAULTS)
    def test_ends_with_what_where_and_code(self, flags, more, code, part):
        result = run(command(*flags, *more))
        assert result.returncode == code, result.stderr
        assert part in error_of(result)

    def test_not_finite_is_one_line(self, flags):
        """And without flags the schedule is the reference's."""
        result = run(command(*flags, "--learning_rate=1e20"))
        assert result.returncode == 1
        assert "NaN or infinite at step" in error_of(result)
        assert "Training from step 0 to 1000, 0 of them warmup" in result.stderr
