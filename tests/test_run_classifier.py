"""Tests specific to the classification program; the rest is in tests/test_conformance.py."""

import json
import pathlib
import random
import shutil
import signal
import sys

import numpy as np
import pytest

from albert.core.errors import FlagError, UserError
from albert.inference import load_model
from albert.report.predictions import read_samples
from tests.helpers.forking import ROOT
from tests.helpers.glue import write_all
from tests.helpers.running import at_step, run, run_as_workers, succeed
from tests.helpers.tiny_runs import MODEL, WORDS


@pytest.fixture(scope="module")
def command(squad_dir):
    model = [flag.format(squad=squad_dir) for flag in MODEL]
    steps = "--max_seq_length=32", "--train_batch_size=8", "--learning_rate=2e-3"
    program = [sys.executable, str(ROOT / "run_classifier.py"), *model, *steps]

    def command(task: str, data_dir: pathlib.Path, out: pathlib.Path, *flags: str) -> list[str]:
        own = f"--task_name={task}", f"--data_dir={data_dir}", f"--output_dir={out}"
        return [*program, *own, "--remove_padding=false", *flags]

    return command


class TestSeparable:
    """A task that can be learned: every text has one of two words, and the label says which."""

    @staticmethod
    def examples(seed: int, count: int) -> list[tuple[str, str]]:
        rng, examples = random.Random(seed), []
        for _ in range(count):
            label, word = rng.choice([("left", "n"), ("right", "r")])
            words = rng.choices(WORDS[2:], k=5)
            words.insert(rng.randrange(6), word)
            examples.append((" ".join(words), label))
        return examples

    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory):
        """Writes a training set in TSV and a development set in JSONL."""
        folder = tmp_path_factory.mktemp("separable")
        train, dev = self.examples(1, 400), self.examples(2, 100)
        rows = "".join(f"{text}\t{label}\n" for text, label in train)
        (folder / "train.tsv").write_text("text_a\tlabel\n" + rows)
        dev = [json.dumps({"label": label, "text_a": text}) + "\n" for text, label in dev]
        (folder / "dev.jsonl").write_text("".join(dev))
        return folder

    @pytest.fixture(scope="class")
    def job(self, folder, command):
        flags = "--do_train", "--do_eval", "--recipe=reference", "--seed=1", "--warmup_step=10"
        flags += "--train_step=150", "--train_batch_size=32", "--save_checkpoints_steps=150"
        return lambda *more: command("tsv", folder, folder / "out", *flags, *more)

    @pytest.fixture(scope="class")
    def done(self, folder, job):
        succeed(job())
        return folder / "out"

    @pytest.fixture
    def out(self, done, tmp_path):
        return shutil.copytree(done, tmp_path / "out")

    @pytest.mark.each_python
    def test_the_task_is_learned(self, done):
        accuracy = json.loads((done / "eval_results.json").read_text())["eval_accuracy"]
        assert accuracy > 0.95

    def test_scoring_needs_no_training_table(self, done, out, folder, job, tmp_path):
        """The labels are those of the training, even if the data has others. Nothing is removed."""
        shutil.copy(folder / "dev.jsonl", tmp_path)
        (tmp_path / "train.tsv").write_text("text_a\tlabel\nbo\ta\nra\tb\nti\tc\n")
        (out / "eval_results.json").unlink()
        flags = f"--data_dir={tmp_path}", f"--output_dir={out}", "--do_train=false"
        succeed(job(*flags))
        for path in out.glob("model.ckpt-150.*"):
            shutil.copy(path, out / path.name.replace("150", "100"))
        succeed(job(f"--output_dir={out}", "--do_train=false", "--keep_checkpoint_max=1"))
        scores, before = (json.loads((f / "eval_results.json").read_text()) for f in (out, done))
        assert scores["eval_accuracy"] == before["eval_accuracy"]
        names = {path.stem for path in out.glob("model.ckpt-*.index")}
        assert names == {"model.ckpt-100", "model.ckpt-150", "model.ckpt-best"}

    def test_ready_made_features_need_no_header(self, out, job, prepare):
        """As the Habana fork's --input_file; they are not made again."""
        (out / "tsv_train.tf_record").rename(out / "train.tf_record")
        ready = f"--input_file={out}"
        prepare(job(f"--output_dir={out.parent / 'new'}", ready))
        assert not list((out.parent / "new").glob("*train.tf_record"))


def test_labels_that_others_wrote_are_not_replaced(command, prepare, tmp_path):
    write_all(tmp_path, WORDS)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/submit_results.tsv").write_text("index\tprediction\n")
    message = "submit_results.tsv exists and was not written by this program"
    with pytest.raises(UserError, match=message):
        prepare(command("rte", tmp_path, tmp_path / "out", "--do_train", "--do_predict"))


@pytest.mark.parametrize(
    ("flags", "error", "message"),
    [
        ("--data_dir=", FlagError, "--data_dir is required"),
        ("--data_dir=no/such", UserError, "train.tsv does not .*=no/such --tasks=MRPC` d"),
        ("--task_name=ax", UserError, "diagnostic has no train set, only test"),
    ],
)
def test_wrong_data_and_flags_are_errors(command, prepare, tmp_path, flags, error, message):
    write_all(tmp_path, WORDS)
    with pytest.raises(error, match=message):
        prepare(command("MRPC", tmp_path, tmp_path / "out", "--do_train", *flags.split()))


def test_a_users_numbers_are_not_limited(command, prepare, tmp_path):
    """Without flags, the schedule is the reference's."""
    rows = "".join(f"{number / 4 - 1}\t{word} a\tb\n" for number, word in enumerate(WORDS))
    (tmp_path / "train.tsv").write_text(f"label\ttext_a\ttext_b\n{rows}")
    flags = "--do_train", "--tsv_regression", "--recipe=reference"
    task = prepare(command("tsv", tmp_path, tmp_path / "out", *flags))
    assert task.labels == [None] and task.description()["limits"] is None
    assert task.metrics == ("pearson", "spearman", "MSE")
    assert task.steps(num_examples=12)[:2] == (1000, 0)


@pytest.mark.slow
def test_long_texts_are_trained_scored_and_labeled_in_windows(command, tmp_path):
    """The last word decides, which a model that truncates does not see."""
    rng = random.Random(2)
    for part, count in (("train", 48), ("dev", 24)):
        rows = ["text_a\tlabel"]
        for number in range(count):
            words = rng.choices("scmeg", k=rng.choice([4, 40]))
            words[-1] = "nr"[number % 2]
            rows.append(f"{' '.join(words)}\t{words[-1]}")
        (tmp_path / f"{part}.tsv").write_text("\n".join(rows) + "\n")
    out, flags = tmp_path / "out", ("--max_seq_length=16", "--do_eval")
    flags += ("--train_steps=40", "--save_checkpoints_steps=20", "--preprocess_workers=1")
    windows = "--long_texts=max", "--doc_stride=8"
    log = succeed(command("tsv", tmp_path, out, *flags, "--do_train", *windows))
    assert "texts have at least" not in log and " features from 48 examples" in log
    samples = list(read_samples(str(out)))
    assert len(samples) == 24
    scores = json.loads((out / "eval_results.json").read_text())
    assert np.mean([s["right"] for s in samples]) == scores["eval_accuracy"]
    shares = [s["probabilities"][s["truth"]] for s in samples]
    assert scores["eval_loss"] == pytest.approx(-np.log(shares).mean(), abs=1e-3)
    # Inference, and a later run without the flags, follow the training.
    texts = [(row.partition("\t")[0], "") for row in rows[1:]]
    model = load_model(str(out))
    found = [[*labelled.probabilities.values()] for labelled in model.classify_all(texts)]
    expected = [[*sample["probabilities"].values()] for sample in samples]
    # The samples have four digits.
    np.testing.assert_allclose(found, expected, atol=5.1e-5)
    other, initial = tmp_path / "other", f"--init_checkpoint={out / 'model.ckpt-best'}"
    succeed(command("tsv", tmp_path, other, *flags[:2], initial))
    assert json.loads((other / "eval_results.json").read_text())["eval_loss"] == scores["eval_loss"]


@pytest.mark.slow
class TestSeveralTasks:
    """Two tasks with two seeds, whose job is killed and resumed, and MNLI with two workers."""

    FLAGS = (
        *("--do_train", "--do_eval", "--do_predict", "--train_step=4", "--train_batch_size=4"),
        *("--warmup_step=1", "--save_checkpoints_steps=2", "--from_scratch"),
    )

    @pytest.fixture(scope="class")
    def data(self, tmp_path_factory):
        folder = tmp_path_factory.mktemp("glue")
        write_all(folder, WORDS)
        return folder

    @pytest.fixture(scope="class")
    def job(self, command, data):
        return lambda tasks, seeds, out: command(tasks, data, out, f"--seeds={seeds}", *self.FLAGS)

    @pytest.fixture(scope="class")
    def whole(self, job, data):
        result = run(job("rte,MNLI", "1,2", data / "whole"))
        assert result.returncode == 0, result.stderr
        return data / "whole", result

    def test_the_table_has_the_medians_of_the_runs(self, whole):
        folder, result = whole
        *_, title, header, row = result.stdout.splitlines()
        assert title == "GLUE, development sets, medians of 2 seeds:"
        assert header.split() == ["MNLI-m/mm", "RTE", "average"] and len(row.split()) == 3
        record = json.loads((folder / "glue_results.json").read_text())
        assert (record["finished_runs"], record["runs"]) == (4, 4)
        scores = json.loads((folder / "rte/seed-2/eval_results.json").read_text())
        scores = {name: value for name, value in scores.items() if isinstance(value, float)}
        assert record["by_seed"]["rte"]["2"] == scores
        assert "MNLI, seed 1: run 3 of 4" in result.stderr

    def test_mismatched_sets_and_submissions_are_those_of_the_trained_model(self, whole):
        folder = whole[0] / "mnli/seed-2"
        record = json.loads((folder / "mismnli/eval_results.json").read_text())
        assert record["init_checkpoint"] == str(folder / "model.ckpt-best")
        best = json.loads((folder / "eval_results.json").read_text())
        assert record["global_step"] == best["global_step"]
        assert not list(folder.glob("mismnli/model.ckpt*"))
        folder, _ = whole
        runs = {"RTE": "rte/seed-2", "MNLI-m": "mnli/seed-2", "MNLI-mm": "mnli/seed-2/mismnli"}
        runs["AX"] = "mnli/seed-2/ax"
        files = {name: folder / run / "submit_results.tsv" for name, run in runs.items()}
        found = {path.stem: path.read_bytes() for path in (folder / "submission/seed-2").iterdir()}
        assert found == {name: path.read_bytes() for name, path in files.items()}

    def test_a_killed_job_resumes_and_gives_the_same_table(self, whole, job, tmp_path):
        succeed(job("rte", "1", tmp_path))
        killed = run(at_step("kill", 3, job("rte,MNLI", "1,2", tmp_path)))
        assert killed.returncode == -signal.SIGKILL
        assert "Training is already complete" in killed.stderr, "of RTE with the first seed"
        record = json.loads((tmp_path / "glue_results.json").read_text())
        assert (record["finished_runs"], record["runs"]) == (1, 4)
        result = run(job("rte,MNLI", "1,2", tmp_path))
        assert result.stderr.count("Training is already complete") == 1
        assert "Training from step 2 to 4" in result.stderr
        assert result.stdout.splitlines()[-3:] == whole[1].stdout.splitlines()[-3:]
        tables = [(folder / "glue_results.json").read_bytes() for folder in (tmp_path, whole[0])]
        assert tables[0] == tables[1]

    def test_its_runs_and_models_are_ordinary_ones(self, whole, command, data, prepare, tmp_path):
        """With the file of flags, a command resumes one; a task of other labels is refused."""
        file, mnli = f"--flagfile={ROOT}/configs/glue_mnli.flags", whole[0] / "mnli/seed-2"
        python, program, *flags = command("MNLI", data, mnli, *self.FLAGS)
        prepare([python, program, file, *flags, "--seed=2"])
        initial = f"--init_checkpoint={mnli / 'model.ckpt-best'}"
        message = "was trained for the labels contr.*, not for --task_name=rte with the labels en"
        with pytest.raises(UserError, match=message):
            prepare(command("rte", data, tmp_path / "rte", "--do_predict", initial))

    def test_two_workers_need_no_common_disk(self, command, data, tmp_path, mpirun):
        """The other rank, which may be on another host, has no checkpoints."""
        flags = *self.FLAGS, "--train_step=2", "--use_horovod", "--task_name=mnli,rte"
        out, other = tmp_path / "out", tmp_path / "other"
        result = run_as_workers(2, command("", data, out, *flags), f"--output_dir={other}")
        assert result.returncode == 0, result.stderr
        assert result.stdout.splitlines()[-2].split() == ["MNLI-m/mm", "RTE", "average"]
        assert {path.name for path in (out / "submission").iterdir()} == {
            *("AX.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "RTE.tsv")
        }
        assert not [*other.rglob("*ckpt*"), *other.rglob("*results*")]
