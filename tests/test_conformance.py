"""The promises of every task, with one tiny run of each that is killed in the middle and resumed.

A new task gets all these tests from a class at the end of this file: its program, its flags, its
input, and the name of its score; a task that answers questions also says how to ask.
"""

from __future__ import annotations

import csv
import fnmatch
import json
import os
import pathlib
import random
import re
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sklearn.metrics import f1_score

from albert import api
from albert.convert.convert import to_transformers
from albert.convert.settings import ConvertSettings
from albert.inference import load_model
from albert.report.predictions import read_samples
from albert.report.spans import Span
from albert.tasks.entities.features import Tagger
from albert.tasks.race.examples import RaceProcessor
from albert.tokenization import FullTokenizer
from albert.tokenizers.wordpiece_text import words_in
from tests.helpers.checkpoints import FILE_STORE, losses, tracked_runs, weights
from tests.helpers.forking import ROOT
from tests.helpers.glue import LABELS, ROWS
from tests.helpers.golden import read_json as read
from tests.helpers.running import assert_fails, at_step, run, run_as_workers, succeed, task_of
from tests.helpers.squad import questions_of
from tests.helpers.tiny_runs import FLAGS, LABELLING, MODEL, write_input


def table(path: pathlib.Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()]


def value_of(name: str, command: list[str]) -> str | None:
    """Returns the last value of a flag."""
    found = [flag for flag in command if flag.startswith(f"--{name}=")]
    return found[-1].split("=", 1)[1] if found else None


def names_in(folder: pathlib.Path) -> set[str]:
    """Returns the names of the files; those of curves without host, process and time."""
    files = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return {re.sub(r"tfevents.*", "tfevents", name) for name in files}


class Promises:
    """The tests of a task that is trained and scored.

    Attributes:
      program: runs the task.
      flags: if not those of `FLAGS`.
      best_by: the score that selects the best checkpoint.
      steps: those that have checkpoints.
      kept: those whose checkpoints stay, if not all.
      features: a prefix of the names of its feature files; empty if it makes none.
      more: additional flags of the resumed run, which do not affect its results.
      is_compared: it is compared with an uninterrupted run; otherwise a similar task is.
      tracker: the variables of a tracker that follows it, with {folder}.
    """

    program: str
    flags: Sequence[str] = ()
    best_by: str
    steps: Sequence[int] = (2, 4, 5)
    kept: Sequence[int] = steps
    features: Sequence[str] = ()
    more: Sequence[str] = ("--from_scratch",)
    is_compared = True
    tracker: Mapping[str, str] = {}

    def write_input(self, folder: pathlib.Path, squad_dir: pathlib.Path) -> None:
        write_input(self.program, folder, squad_dir)

    @pytest.fixture(scope="class")
    def task(self) -> type:
        return task_of(self.program)

    @pytest.fixture(scope="class")
    def folder(self, squad_dir, tmp_path_factory) -> pathlib.Path:
        """Returns a folder with the input, the outputs of two runs, and an export of one of
        them."""
        folder = tmp_path_factory.mktemp(self.program)
        self.write_input(folder, squad_dir)
        return folder

    @pytest.fixture(scope="class")
    def command(self, folder, squad_dir) -> Callable[..., list[str]]:
        """Makes the command of the run, into a folder, with more flags."""

        def command(output_dir: pathlib.Path, *more: str) -> list[str]:
            flags = (*(self.flags or FLAGS[self.program]), *more)
            given = [flag.format(squad=squad_dir, folder=folder) for flag in flags]
            program = str(ROOT / f"{self.program}.py")
            return [sys.executable, program, f"--output_dir={output_dir}", *given]

        return command

    @pytest.fixture(scope="class")
    def whole(self, folder, command, request) -> pathlib.Path:
        """Returns the output folder of an uninterrupted run."""
        if not self.is_compared:
            return request.getfixturevalue("done")
        succeed(command(folder / "whole"))
        return folder / "whole"

    @pytest.fixture(scope="class")
    def done(self, folder, command) -> pathlib.Path:
        """Returns the output folder of the same run, killed two steps after its first checkpoint
        and resumed."""
        job = command(folder / "out", *self.more)
        first, *_, last = self.steps
        environment = os.environ | {n: v.format(folder=folder) for n, v in self.tracker.items()}
        killed = run(at_step("kill", first + 2, job), env=environment)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        log = succeed(job, env=environment)
        (folder / "log").write_text(log)
        assert f"Training from step {first} to {last}" in log
        assert log.count("Reusing") >= bool(self.features)
        assert "random weights" not in log, "it has been asked for"
        return folder / "out"

    def test_a_killed_run_resumes_bit_for_bit(self, whole, done, task):
        """It has dropout; its files are those of an uninterrupted run."""
        assert names_in(done) == names_in(whole)
        compared = [*task.outputs, "run.json", "eval_results.txt"]
        # Own tables have no test set.
        compared += [name for name in task.label_outputs if (whole / name).exists()]
        compared += [path.name for path in whole.glob("model.ckpt-*.data*")]
        for name in compared:
            assert (done / name).read_bytes() == (whole / name).read_bytes(), name
        first, second = (read(f / "eval_results.json") for f in (done, whole))
        assert first["history"] == second["history"]

    def test_every_checkpoint_is_scored_and_the_best_is_kept(self, whole):
        record = read(whole / "eval_results.json")
        assert [entry["global_step"] for entry in record["history"]] == list(self.steps)
        best = max(record["history"], key=lambda entry: entry[self.best_by])
        assert record.items() >= best.items() and record["init_checkpoint"] is None
        parts = "index", "meta", "data-00000-of-00001"
        names = {path.name for path in whole.glob("*.ckpt*")}
        assert names == {f"model.ckpt-{s}.{p}" for s in (*self.kept, "best") for p in parts}
        kept = weights(whole, "model.ckpt-best")
        assert kept["global_step"] == best["global_step"]
        if best["global_step"] in self.kept:
            for name, value in weights(whole, best["checkpoint"]).items():
                np.testing.assert_array_equal(kept[name], value)
        assert f"{self.best_by} = " in (whole / "eval_results.txt").read_text()
        assert len(losses(whole)) == self.steps[-1], "a point of every step"

    def test_metrics_have_each_step_and_checkpoint_once(self, whole, done):
        """The steps that the resumed run has repeated included; losses are those of the curves."""
        lines = list(map(json.loads, (done / "metrics.jsonl").read_text().splitlines()))
        training = [line for line in lines if line["kind"] == "training"]
        found = [line["step"] for line in training]
        expected = range(1, self.steps[-1] + 1) if "--log_steps=1" in self.more else [1, *found[1:]]
        assert found == sorted(set(expected)) and found[-1] == self.steps[-1]
        curve = losses(whole)
        assert [line["loss"] for line in training] == pytest.approx([curve[s - 1] for s in found])
        assert all(line["learning_rate"] >= 0 < line["tokens_per_second"] for line in training)
        history = read(done / "eval_results.json")["history"]
        for line, entry in zip((x for x in lines if x["kind"] == "scores"), history, strict=True):
            scores = {name: value for name, value in entry.items() if isinstance(value, float)}
            assert line.items() >= {"step": entry["global_step"], **scores}.items()
            assert (line["checkpoint"], line["best_by"]) == (entry["checkpoint"], self.best_by)

    def test_the_run_and_its_model_are_recorded(self, whole, command, task):
        """The task, all files that --overwrite_output_dir removes, and the model next to them."""
        record = read(whole / "run.json")
        assert record["task"] == task.kind and record["settings"]["number of workers"] == 1
        made = *self.features, "eval_left.npz"
        others = [name for name in names_in(whole) if not name.startswith(made)]
        patterns = [pattern.removesuffix(".*") for pattern in record["outputs"]]
        unknown = [n for n in others if not any(fnmatch.fnmatch(n, p) for p in patterns)]
        assert not unknown, "they would stay, or are litter"
        length = int(value_of("max_seq_length", command(whole)))
        expected = {"task": task.kind, "do_lower_case": True, "max_seq_length": length}
        assert read(whole / "assets.extra/model.json").items() >= expected.items()
        for flag in ("albert_config_file", "spm_model_file", "vocab_file"):
            if source := value_of(flag, command(whole)):
                name = "config.json" if "config" in flag else pathlib.Path(source).name
                kept = (whole / "assets.extra" / name).read_bytes()
                assert kept == pathlib.Path(source).read_bytes()

    def test_the_same_command_ends_at_once(self, done, command, task):
        before = {f: f.stat().st_mtime_ns for f in done.rglob("*")}
        result = run(command(done))
        assert result.returncode == 0, result.stderr
        assert "Training is already complete" in result.stderr
        assert f"All {len(self.steps)} checkpoints already have scores" in result.stderr
        for name in self.features:
            assert f"Reusing {done / name}" in result.stderr
        lines = result.stderr.splitlines()
        warnings = [x for x in lines if " WARNING " in x and "emulate float16" not in x]
        assert ("; open it in a browser." in result.stdout) == ("predictions.html" in task.outputs)
        assert len(warnings) == ("--from_scratch" in self.more)
        assert all("--init_checkpoint is not given: this run starts" in w for w in warnings)
        assert {f: f.stat().st_mtime_ns for f in done.rglob("*")} == before


class Answering(Promises):
    """The tests of a task whose model is also exported and asked.

    A task has `check_exported`, which checks the exported model's outputs for all features, and
    `check_asked`, which asks a model about the texts that the run has answered, and compares. The
    run has answered its last features.
    """

    features = ("train.tf_record", "dev.tf_record", "test.tf_record")
    more = ("--from_scratch", "--export_dir={folder}/export")

    def test_an_export_gives_the_runs_outputs(self, done, folder, command, task):
        """For the features of a file, truncated to the longest."""
        records = tf.data.TFRecordDataset(str(done / self.features[-1])).as_numpy_iterator()
        features = [tf.train.Example.FromString(record).features.feature for record in records]
        length = int(value_of("max_seq_length", command(done)))
        shape = [-1, *getattr(task, "sequences", ()), length]
        inputs = {
            key: np.int32([f[key].int64_list.value for f in features]).reshape(shape)
            for key in ("input_ids", "input_mask", "segment_ids")
        }
        longest = inputs["input_mask"].sum(axis=-1).max()
        inputs = {key: value[..., :longest] for key, value in inputs.items()}
        (exported,) = (folder / "export/saved_model").iterdir()
        signature = tf.saved_model.load_v2(str(exported)).signatures["serving_default"]
        assert signature.structured_input_signature[1].keys() == inputs.keys()

        def outputs(rows: slice) -> dict[str, np.ndarray]:
            given = {name: tf.constant(value[rows]) for name, value in inputs.items()}
            return {name: value.numpy() for name, value in signature(**given).items()}

        found = outputs(slice(None))
        self.check_exported(found, done)
        for rows in (slice(0, 1), slice(1, 4)):
            for name, value in outputs(rows).items():
                if value.dtype == np.float32 and value.ndim:
                    np.testing.assert_allclose(value, found[name][rows], atol=1e-5)
        assets = folder / "out/assets.extra"
        for path in assets.iterdir():
            assert (exported / "assets.extra" / path.name).read_bytes() == path.read_bytes()

    @pytest.mark.parametrize("place", ["out", "export", "there"])
    def test_a_folder_answers_as_the_run_did(self, done, folder, command, place, tmp_path):
        if place == "there":
            to_transformers(str(done), str(tmp_path / place), ConvertSettings())
            folder = tmp_path
        # As the run did; the fastest precision of some processors is bfloat16.
        model = load_model(str(folder / place), precision="float32")
        self.check_asked(model, done, command(done))


class Answers(Answering):
    """The tests of SQuAD."""

    features = ("train.tf_record", "eval.tf_record")

    def questions(self, command: list[str]) -> dict[str, tuple[dict, str]]:
        """Returns the questions by id, with their paragraphs."""
        pairs = questions_of(read(pathlib.Path(value_of("predict_file", command))))
        return {question["id"]: (question, context) for context, question in pairs}

    def check_asked(self, model, done, command):
        questions = self.questions(command)
        asked = [(question["question"], [text]) for question, text in questions.values()]
        answered = dict(zip(questions, model.answer_all(asked), strict=True))
        for name, entries in read(done / "nbest_predictions.json").items():
            found = answered[name].answers
            assert [answer.text for answer in found] == [entry["text"] for entry in entries]
            expected = [entry["probability"] for entry in entries]
            assert [answer.probability for answer in found] == pytest.approx(expected, abs=1e-5)
        texts = {i: "" if a.abstains else a.answers[0].text for i, a in answered.items()}
        assert texts == read(done / "predictions.json")
        odds = {i: a.no_answer_odds for i, a in answered.items() if a.no_answer_odds is not None}
        has_odds = (done / "null_odds.json").exists()
        assert odds == pytest.approx(read(done / "null_odds.json") if has_odds else {}, abs=1e-5)

    def test_every_question_has_an_answer(self, done, command):
        nbest = read(done / "nbest_predictions.json")
        answers = read(done / "predictions.json")
        assert list(answers) == list(nbest) == list(self.questions(command(done)))
        for entries in nbest.values():
            assert sum(entry["probability"] for entry in entries) == pytest.approx(1, abs=1e-6)
        samples, best = list(read_samples(str(done))), read(done / "eval_results.json")
        f1 = np.mean([sample["score"] for sample in samples])
        assert 100 * f1 == pytest.approx(best["f1"], abs=1e-2)
        assert {sample["id"]: sample["answer"] for sample in samples} == answers


class Labels(Answering):
    """The tests of a classification, which has `ask`: it returns a model's answers about what the
    run has labeled.

    Attributes:
      labels: in the order of their ids.
    """

    labels: Sequence[str]
    kept = (4, 5)
    best_by = "eval_accuracy"

    def ids(self, folder: pathlib.Path) -> list[str]:
        return list(map(str, range(ROWS)))

    def check_exported(self, found, done):
        expected = np.loadtxt(done / "test_results.tsv")
        np.testing.assert_allclose(found["probabilities"], expected, atol=1e-5)

    def check_asked(self, model, done, command):
        found = self.ask(model, done.parent)
        expected = [answer for _, answer in table(done / "submit_results.tsv")[1:]]
        assert [labelled.label for labelled in found] == expected
        shares = [[*one.probabilities.values()] for one in found]
        np.testing.assert_allclose(shares, np.loadtxt(done / "test_results.tsv"), atol=1e-5)

    def test_the_test_set_is_labeled(self, done, folder):
        header, *rows = table(done / "submit_results.tsv")
        probabilities = np.loadtxt(done / "test_results.tsv")
        assert header == ["index", "prediction"] and probabilities.shape[1] == len(self.labels)
        assert [name for name, _ in rows] == self.ids(folder)
        assert [label for _, label in rows] == [self.labels[n] for n in probabilities.argmax(1)]
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
        accuracy = np.mean([sample["score"] for sample in read_samples(str(done))])
        assert accuracy == pytest.approx(read(done / "eval_results.json")["eval_accuracy"])


@pytest.mark.each_python
class TestSquadV1(Answers):
    """Scores each checkpoint as soon as it is written, in the resumed run."""

    program, best_by = "run_squad_v1", "f1"
    steps = kept = (5, 10, 12)
    more = (*Answers.more, "--evaluate_while_training", "--log_steps=1")

    @pytest.fixture(scope="class")
    def whole(self, trained):
        return trained

    @pytest.mark.usefixtures("done")
    def test_a_checkpoint_is_scored_before_the_next_step(self, folder):
        log = (folder / "log").read_text()
        found = re.findall(r"step (\d+)/12|(model\.ckpt-\d+): exact_match", log)
        order = [step or name for step, name in found]
        assert order == [*"6789", "10", "model.ckpt-10", "11", "12", "model.ckpt-12"]

    def check_exported(self, found, done):
        """Checks that the n-best list holds scores of windows: the best are among the model's."""
        for entries in read(done / "nbest_predictions.json").values():
            for name in ("start_log_prob", "end_log_prob"):
                assert np.isclose(found[name], entries[0][name], atol=1e-5).any()


@pytest.mark.slow
class TestSquadV2(Answers):
    program, best_by = "run_squad_v2", "best_f1"

    def check_exported(self, found, done):
        """Checks the scores at the paragraph's positions, which the segments give."""
        names = {f"{end}_top_{of}" for end in ("start", "end") for of in ("log_probs", "index")}
        assert found.keys() == {*names, "cls_logits"}
        assert found["end_top_index"].shape == (len(found["cls_logits"]), 25)
        for odds in read(done / "null_odds.json").values():
            assert np.isclose(found["cls_logits"], odds, atol=1e-5).any()

    def check_asked(self, model, done, command):
        """Checks that it abstains by the threshold from the scores."""
        super().check_asked(model, done, command)
        threshold = read(done / "eval_results.json")["best_f1_thresh"]
        assert model.folder.description["no_answer_threshold"] == threshold

    def test_a_squad_1_checkpoint_and_file_are_accepted(
        self, trained, squad_dir, command, tmp_path
    ):
        """A message says that the head is new, and another that no question is unanswerable."""
        files = "--train_file={squad}/train-v1.1.json", "--predict_file={squad}/dev-v1.1.json"
        initial = f"--init_checkpoint={trained / 'model.ckpt-best'}"
        log = succeed(command(tmp_path, *files, initial, "--train_steps=1"))
        (line,) = (line for line in log.splitlines() if "variables taken" in line)
        assert "new: start_logits/dense/kernel" in line and "unused: cls/squad/output_bias" in line
        assert "train-v1.1.json has no unanswerable question" in log
        results = read(tmp_path / "eval_results.json")
        assert results["HasAns_total"] == results["total"] and "NoAns_f1" not in results


@pytest.mark.slow
class TestMrpc(Labels):
    """Uses a BERT with a WordPiece vocabulary, and exports an additional value."""

    program, labels = "run_classifier", LABELS["MRPC"]
    features = ("mrpc_train.tf_record", "mrpc_eval.tf_record", "predict.tf_record")

    def ask(self, model, folder):
        return model.classify_all([tuple(row[-2:]) for row in table(folder / "MRPC/test.tsv")[1:]])

    def check_exported(self, found, done):
        super().check_exported(found, done)
        assert found.keys() == {"probabilities", "predictions", "logits", "threshold"}
        assert found["threshold"] == 0.75


@pytest.mark.slow
class TestSeveralLabels(Answering):
    """Your own task, with several labels per text; tables are CSV with other names of columns."""

    program, labels = "run_classifier", ["a,b", "c", "d"]
    features = ("tsv_train.tf_record", "tsv_eval.tf_record")
    best_by, is_compared = "micro_f1", False
    flags = (
        *(*MODEL, *LABELLING, "--do_predict=false", "--task_name=tsv", "--recipe=reference"),
        *("--multi_label", "--label_separator=|", "--text_column=text", "--label_column=topics"),
        *("--train_step=30", "--warmup_step=3", "--save_checkpoints_steps=10"),
        "--max_seq_length=24",
    )
    steps, kept = (10, 20, 30), (20, 30)

    def rows(self, seed: int) -> list[list[str]]:
        """Returns texts with the words that their labels are about; some have no label."""
        rng, words = random.Random(seed), dict(zip(self.labels, "nrl", strict=True))
        rows = []
        for _ in range(ROWS):
            found = [label for label in self.labels if rng.random() < 0.5]
            text = [words[label] for label in found] + rng.choices("scmeg", k=3)
            rows.append([" ".join(rng.sample(text, len(text))), "|".join(found)])
        return rows

    def write_input(self, folder, squad_dir):
        for seed, part in enumerate(("train", "dev")):
            with (folder / f"{part}.csv").open("w", newline="") as file:
                csv.writer(file).writerows([["text", "topics"], *self.rows(seed)])

    def shares(self, done: pathlib.Path) -> np.ndarray:
        """Returns the probabilities of the labels of the development set, with four digits."""
        return np.array([[*s["probabilities"].values()] for s in read_samples(str(done))])

    def check_exported(self, found, done):
        np.testing.assert_allclose(found["probabilities"], self.shares(done), atol=5.1e-5)
        names, answers = np.array(self.labels), [s["answer"] for s in read_samples(str(done))]
        assert [names[row == 1].tolist() for row in found["predictions"]] == answers
        threshold = read(done / "eval_results.json")["label_threshold"]
        assert found["threshold"] == pytest.approx(threshold)

    def check_asked(self, model, done, command):
        """The threshold is that of the best checkpoint on the development set."""
        found = model.classify_all([(text, "") for text, _ in self.rows(1)])
        assert [one.labels for one in found] == [s["answer"] for s in read_samples(str(done))]
        shares = [[*one.probabilities.values()] for one in found]
        np.testing.assert_allclose(shares, self.shares(done), atol=5.1e-5)
        threshold = read(done / "eval_results.json")["label_threshold"]
        assert model.folder.description["label_threshold"] == threshold

    def test_the_labels_are_those_of_the_file_and_scored_by_f1(self, done):
        samples = list(read_samples(str(done)))
        given = [[label in row[1].split("|") for label in self.labels] for row in self.rows(1)]
        truth, answers = (
            [[label in sample[key] for label in self.labels] for sample in samples]
            for key in ("truth", "answer")
        )
        assert truth == given
        f1 = f1_score(truth, answers, average="micro", zero_division=0)
        assert read(done / "eval_results.json")["micro_f1"] == pytest.approx(f1)

    def test_a_model_with_one_label_per_text_is_refused(self, done, command, tmp_path):
        initial = f"--init_checkpoint={done / 'model.ckpt-best'}", "--multi_label=false"
        message = "and --multi_label, not for --task_name=tsv with the labels"
        assert_fails(run(command(tmp_path, *initial, "--do_train=false")), 1, message)


@pytest.mark.slow
class TestRace(Labels):
    """Has no dropout, and is tracked."""

    program, labels = "run_race", "ABCD"
    more = (*Labels.more, "--track=mlflow", "--log_steps=1")
    tracker, is_compared = {"MLFLOW_TRACKING_URI": "{folder}/mlflow", **FILE_STORE}, False

    def ids(self, folder):
        processor = RaceProcessor(True, True, False, False)
        return [example.example_id for example in processor.get_test_examples(str(folder))]

    def ask(self, model, folder):
        asked, test_set = [], folder / "RACE/test"
        for path in (*sorted(test_set.glob("middle/*")), *sorted(test_set.glob("high/*"))):
            passage = read(path)
            for asking in zip(passage["questions"], passage["options"], strict=True):
                asked.append((passage["article"], *asking))
        return model.choose_all(asked)

    def test_one_run_of_mlflow_has_settings_metrics_and_scores(self, done, folder):
        ((tracked, histories),) = tracked_runs(folder / "mlflow")
        assert (tracked.info.status, tracked.data.tags["albert.task"]) == ("FINISHED", "race")
        assert tracked.data.params.keys() == read(done / "run.json")["settings"].keys()
        # A resumed run sends the steps since its checkpoint again.
        curve = dict(enumerate(losses(done), start=1))
        assert dict(histories["loss"]) == pytest.approx(curve) and len(curve) == 5
        results = read(done / "eval_results.json")
        best = {results["global_step"]: results[self.best_by]}
        assert dict(histories[f"best/{self.best_by}"]) == best

    def test_two_workers_give_what_one_gives(self, done, command, tmp_path, mpirun):
        """Both workers send scores and labels, and both end when no score is better."""
        initial = f"--init_checkpoint={done / 'model.ckpt-best'}"
        still = "--learning_rate=1e-30", "--train_steps=50", "--patience=1"
        result = run_as_workers(2, command(tmp_path, initial, *still, "--use_horovod"))
        assert result.returncode == 0, result.stderr
        history = read(tmp_path / "eval_results.json")["history"]
        assert [entry["global_step"] for entry in history] == [2, 4]
        first, second = (read(f / "eval_results.json") for f in (tmp_path, done))
        for name in ("eval_accuracy", "eval_loss"):
            assert first[name] == pytest.approx(second[name], abs=1e-5)
        first, second = (np.loadtxt(f / "test_results.tsv") for f in (tmp_path, done))
        np.testing.assert_allclose(first, second, atol=1e-5)


@pytest.mark.each_python
@pytest.mark.slow
class TestEntities(Answering):
    """Uses a BERT with a WordPiece vocabulary; the texts and their entities are made up."""

    program, best_by, kept = "run_ner", "f1", (4, 5)
    tags = ("O", "B-PER", "I-PER", "B-PLACE", "I-PLACE")

    def found(self, done: pathlib.Path) -> dict[str, list[Span]]:
        """Returns the spans that the run has found, by their texts."""
        rows = map(json.loads, (done / "test_predictions.jsonl").read_text().splitlines())
        return {row["text"]: [Span(**span) for span in row["spans"]] for row in rows}

    def compare(self, spans: Iterable[list[Span]], done: pathlib.Path) -> None:
        """Fails unless spans are those of the run."""
        expected = list(self.found(done).values())
        assert len(expected) == 12 and any(expected)
        for found, of_run in zip(spans, expected, strict=True):
            assert [span[:4] for span in found] == [span[:4] for span in of_run]
            shares = [span.probability for span in of_run]
            assert [span.probability for span in found] == pytest.approx(shares, abs=1e-5)

    def check_exported(self, found, done):
        assert found.keys() == {"predictions", "probabilities", "logits"}
        tagger = Tagger(FullTokenizer(str(done / "assets.extra/vocab.txt")), self.tags, 12)
        assert found["logits"].shape[-1] == len(self.tags)
        texts = list(self.found(done))
        shares = found["probabilities"].max(axis=-1)
        rows = zip(found["predictions"], shares, strict=True)
        outputs = [{"predictions": row, "probabilities": share} for row, share in rows]
        assert len(outputs) > len(texts), "some texts have several windows"
        self.compare(tagger.spans(((t, words_in(t)) for t in texts), outputs), done)

    def check_asked(self, model, done, command):
        texts = list(self.found(done))
        self.compare(model.find_all(texts), done)
        assert model.find(texts[0]) == model.find_all(texts)[0]
        assert model.labels == ["PER", "PLACE"]

    def test_the_page_shows_what_is_scored(self, done, folder):
        """So does the Python API, which scores the model again."""
        samples, best = list(read_samples(str(done))), read(done / "eval_results.json")
        spans, truths = (
            [{(s["start"], s["text"], s["label"]) for s in sample[name]} for sample in samples]
            for name in ("spans", "truths")
        )
        hits = sum(len(found & true) for found, true in zip(spans, truths, strict=True))
        assert best["precision"] == pytest.approx(hits / sum(map(len, spans)))
        assert best["recall"] == pytest.approx(hits / sum(map(len, truths)))
        texts = [
            json.loads(line)["text"] for line in (folder / "dev.jsonl").read_text().split("\n")[:-1]
        ]
        assert [sample["passage"] for sample in samples] == texts
        result = api.evaluate(done, predict_file=folder / "dev.jsonl", verbose=False)
        assert result.scores == {name: best[name] for name in result.scores} != {}
        assert [f"line {n}" for n in range(1, 13)] == list(result.predictions)
        for found, expected in zip(result.predictions.values(), spans, strict=True):
            assert {(span.start, span.text, span.label) for span in found} == expected


@pytest.mark.each_python
@pytest.mark.slow
class TestPretraining(Promises):
    """Computes in float16, whose loss scale is saved and resumed too."""

    program, best_by, kept, more = "run_pretraining", "masked_lm_accuracy", (4, 5), ()

    def test_float16_is_used_with_a_loss_scale(self, done, folder):
        log = (folder / "log").read_text()
        assert re.search(r"float16 by \S+albert.json: [1-9]\d* of \d+ float32 operations", log)
        assert "  loss scale 32768  skipped=0  " in log
        assert weights(done, "model.ckpt-best")["loss_scale/good_steps"] in self.steps
