"""Evaluation: every checkpoint is scored once, and the best one kept."""

import hashlib
import json
import logging
import os
import shutil
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.checkpoints.checkpoint_files import remove_checkpoint
from albert.core.errors import UserError
from albert.training import metrics
from albert.training.evaluation import CheckpointScores, Evaluation
from tests.helpers.checkpoints import points, write_checkpoint

SCORES = {5: (20.0, 40.5), 10: (30.0, 60.25), 15: (35.0, 60.25), 20: (10.0, 50.0)}


def save(prefix, number, **step):
    """Writes a checkpoint with a variable of that value and, if it is given, a global step."""
    write_checkpoint(prefix, {"weight": np.full(3, number, "f4"), **step})


class Job:
    """A run's folder: its checkpoints, and an evaluation of them."""

    def __init__(self, folder):
        self.folder = folder
        self.scored = []  # basenames, in the order in which they were scored
        self.settings = {"predict_file": "sha256:aa", "n_best_size": 20}
        self.defaults = {"new": 1}
        self.key, self.init_checkpoint = "f1", None
        self.scores = dict(SCORES)
        self.output = folder / "predictions.json"

    def add(self, *steps):
        for step in steps:
            save(self.folder / f"model.ckpt-{step}", step, global_step=np.int64(step))

    def run(self, score=None):
        """Returns what is scored, and the best entry; `metrics.jsonl` has the same scores."""
        self.scored = []
        best = self.evaluation().score_all(score or self.score)
        lines = metrics.read(str(self.folder))
        assert {(line["kind"], line["best_by"]) for line in lines} <= {("scores", self.key)}
        actual = [{**line, "global_step": line["step"]} for line in lines]
        for line, entry in zip(actual, self.record()["history"], strict=True):
            assert line.items() >= entry.items()
        return self.scored, best

    def evaluation(self):
        flags = {"output_dir": str(self.folder), "init_checkpoint": self.init_checkpoint}
        run = types.SimpleNamespace(**flags, defaults=lambda: self.defaults)
        return Evaluation(run, self.key, [self.output.name], self.settings)

    def score(self, checkpoint):
        self.scored.append(os.path.basename(checkpoint))
        step = int(tf.train.load_variable(checkpoint, "weight")[0])
        scores = dict(zip(("exact_match", "f1"), self.scores[step], strict=True))
        return CheckpointScores(scores, lambda: self.output.write_text(str(step)))

    def record(self):
        return json.loads((self.folder / "eval_results.json").read_text(encoding="utf-8"))

    def replace_record(self, content):
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        (self.folder / "eval_results.json").write_bytes(content)

    def remove(self, *steps):
        for step in steps:
            remove_checkpoint(str(self.folder / f"model.ckpt-{step}"))

    def best_copy(self):
        """Returns the step of model.ckpt-best, which must be whole and have its predictions."""
        prefix = str(self.folder / "model.ckpt-best")
        weight, step = (tf.train.load_variable(prefix, n) for n in ("weight", "global_step"))
        assert weight[0] == step and self.output.read_text() == str(step)
        return int(step)


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


def named(*steps):
    return [f"model.ckpt-{step}" for step in steps]


def test_without_true_answers_the_last_checkpoint_is_best(job, log):
    job.add(5, 10)
    best = job.evaluation().score_all(lambda name: job.score(name)._replace(scores={}))
    assert best == {"global_step": 10, "checkpoint": "model.ckpt-10"} and job.best_copy() == 10
    assert log().count("There are no answers to compare with: computing no scores") == 1


def test_all_are_scored_and_the_first_best_is_kept(job):
    job.init_checkpoint = "some/where"
    job.add(20, 5, 15, 10)
    before = {f: f.read_bytes() for f in job.folder.iterdir()}
    assert job.evaluation().since_best() == 0
    scored, best = job.run()
    assert scored == named(5, 10, 15, 20)
    entries = [
        {"exact_match": exact, "f1": f1, "global_step": step, "checkpoint": f"model.ckpt-{step}"}
        for step, (exact, f1) in SCORES.items()
    ]
    assert best == entries[1] and job.best_copy() == 10
    assert all(f.read_bytes() == content for f, content in before.items())
    assert len(list(job.folder.glob("model.ckpt-best*"))) == 2

    record = job.record()
    files = record.pop("files")
    assert files.keys() == {"predictions.json", "model.ckpt-best.index"}
    assert files["predictions.json"] == hashlib.sha256(b"10").hexdigest()
    common = {"init_checkpoint": "some/where", "history": entries, "settings": job.settings}
    assert record == {**best, **common, "version": 1}

    # As in the reference.
    line = "=" * 50
    assert (job.folder / "eval_results.txt").read_text().splitlines() == [
        *("exact_match = 20.0", "f1 = 40.5"),
        *("saved model.ckpt-5 to model.ckpt-best", "best f1 = 40.5", line),
        *("exact_match = 30.0", "f1 = 60.25"),
        *("saved model.ckpt-10 to model.ckpt-best", "best f1 = 60.25", line),
        *("exact_match = 35.0", "f1 = 60.25", "best f1 = 60.25", line),
        *("exact_match = 10.0", "f1 = 50.0", "best f1 = 60.25", line),
        *("exact_match = 30.0", "f1 = 60.25", "best perf happened at step: 10"),
    ]
    for name in ("exact_match", "f1"):
        curve = {entry["global_step"]: entry[name] for entry in entries}
        assert points(job.folder / "eval")[name] == curve
    assert job.evaluation().since_best() == 2, "an equal score is no better"


def test_with_other_settings_the_only_copy_of_the_best_stays(job):
    """Its numbered checkpoint was removed, as by programs that keep the last few, or all were."""
    job.add(5, 10, 20)
    job.run()
    job.remove(5, 10, 20)
    job.settings = {"n_best_size": 1}
    scored, best = job.run()
    assert scored == [best["checkpoint"]] == ["model.ckpt-best"]
    assert best["global_step"] == job.best_copy() == 10 and job.run()[0] == []
    job.add(10, 15, 20)
    job.settings = {"n_best_size": 2}
    job.run()
    job.remove(10)
    job.settings = {"predict_file": "sha256:bb"}
    scored, best = job.run()
    assert scored == named(10, 15, 20)
    assert best["global_step"] == job.best_copy() == 10
    job.scores[20] = (90.0, 90.0)
    job.settings = {"predict_file": "sha256:cc"}
    assert job.run()[1]["global_step"] == job.best_copy() == 20
    assert (job.folder / "model.ckpt-10.index").exists()


class TestResumed:
    def test_only_new_checkpoints_are_scored(self, job):
        for step, best_step in ((5, 5), (10, 10), (15, 10), (20, 10)):
            job.add(step)
            scored, best = job.run()
            assert scored == named(step) and best["global_step"] == job.best_copy() == best_step
        assert [entry["global_step"] for entry in job.record()["history"]] == [5, 10, 15, 20]
        assert points(job.folder / "eval")["f1"].keys() == {5, 10, 15, 20}
        assert job.run() == ([], best)
        text = (job.folder / "eval_results.txt").read_text()
        (job.folder / "eval_results.json").unlink()
        assert job.run()[0] == named(5, 10, 15, 20)
        assert (job.folder / "eval_results.txt").read_text() == text, "as in one run"

    @pytest.mark.parametrize(("writes", "left"), [(True, [15]), (False, [10, 15])])
    def test_a_stopped_evaluation_is_completed(self, job, writes, left):
        job.add(5, 10, 15)

        def score(checkpoint):
            scores, write = job.score(checkpoint)
            if checkpoint.endswith("15"):
                raise KeyboardInterrupt
            return CheckpointScores(
                scores, write if writes or checkpoint.endswith("-5") else lambda: 1 / 0
            )

        with pytest.raises((KeyboardInterrupt, ZeroDivisionError)):
            job.run(score)
        assert job.run()[0] == named(*left)
        assert job.best_copy() == 10

    def test_other_settings_score_all_again(self, job):
        job.add(5, 10)
        job.run()
        job.scores[5] = (90.0, 91.0)
        for job.settings in ({"n_best_size": 5}, {"n_best_size": 5, "more": 3}, {"more": 3}):
            scored, best = job.run()
            assert scored == named(5, 10) and best["global_step"] == 5
            assert job.record()["settings"] == job.settings and job.run()[0] == []
        # A record of an earlier version lacks a flag; its scores are those of the default.
        job.settings = {"more": 3, "new": 1}
        assert job.run()[0] == []
        job.settings = {"more": 3, "new": 2}
        assert job.run()[0] == named(5, 10)

    @pytest.mark.parametrize(
        ("name", "damage"),
        [*((".index", damage) for damage in (None, b"", b"11")), (".data-00000-of-00001", None)],
    )
    @pytest.mark.parametrize("same_settings", [True, False])
    def test_a_damaged_best_checkpoint_is_made_again(self, job, name, damage, same_settings, log):
        """Without a copy of the best, an export would only have the newest checkpoint."""
        job.add(5, 10)
        job.run()
        path = job.folder / f"model.ckpt-best{name}"
        whole = path.read_bytes()
        # A hard link of the file may be that of model.ckpt-10, so it is not overwritten.
        path.unlink()
        if damage is not None:
            path.write_bytes(damage and damage + whole[len(damage) :])
        if not same_settings:
            job.settings = {"n_best_size": 1}
        log()
        assert job.run()[0] == named(5, 10)
        assert path.read_bytes() == whole and job.best_copy() == 10
        assert not same_settings or "scoring all checkpoints again" in log(logging.WARNING)[0]
        # Another checkpoint in its place.
        for path in list(job.folder.glob("model.ckpt-5.*")):
            other = job.folder / path.name.replace("-5", "-best")
            other.unlink()
            shutil.copy(path, other)
        assert job.run()[0] == named(5, 10) and job.best_copy() == 10

    @pytest.mark.parametrize("damage", [None, b"11"])
    def test_only_the_best_is_predicted_for_a_damaged_output(self, job, damage, log):
        """Its numbered checkpoint may be gone; earlier versions recorded fewer outputs."""
        job.add(5, 10, 15)
        _, best = job.run()
        job.remove(5, 10)
        job.output.unlink()
        if damage:
            job.output.write_bytes(damage)
        log()

        def score(checkpoint):
            return CheckpointScores(job.score(checkpoint)[0], lambda: job.output.write_text("new"))

        assert job.run(score) == (["model.ckpt-best"], best)
        assert "predictions.json" in log(logging.WARNING)[0]
        assert job.output.read_text() == "new", "the new content is recorded"
        assert job.run()[0] == [] and len(job.record()["history"]) == 3
        job.replace_record({k: v for k, v in job.record().items() if k != "files"})
        assert job.run()[0] == []

    @pytest.mark.parametrize("content", [b"", b"[]", b"\xff", {"settings": None}, {"version": 0}])
    def test_a_damaged_record_scores_all_again(self, job, content, log):
        job.add(5, 10)
        job.run()
        is_change = isinstance(content, dict)
        job.replace_record({**job.record(), **content} if is_change else content)
        log()
        assert job.run()[0] == named(5, 10) and job.record()["f1"] == 60.25
        warnings = [w for w in log(logging.WARNING) if "scoring all checkpoints again" in w]
        assert len(warnings) == (content != {"version": 0})


class TestWhatThereIs:
    @pytest.mark.parametrize("name", ["start.ckpt", "model.ckpt-best"])
    def test_the_initial_checkpoint_is_scored_once(self, job, name):
        """It is elsewhere, under a common name, and stays there."""
        job.init_checkpoint = str(job.folder / "pretrained" / name)
        save(job.init_checkpoint, 15, global_step=np.int64(15))
        scored, best = job.run()
        assert scored == [name]
        assert (best["checkpoint"], best["global_step"], best["f1"]) == (name, 15, 60.25)
        assert job.output.read_text() == "15" and not list(job.folder.glob("model.ckpt-*"))
        record = job.record()
        assert record["init_checkpoint"] == job.init_checkpoint
        assert job.run()[0] == [] and job.record() == record
        job.output.unlink()
        assert job.run()[0] == [name] and job.output.read_text() == "15"
        # Another checkpoint has separate scores.
        job.init_checkpoint, job.settings = str(job.folder / "another.ckpt"), {"init": 20}
        save(job.init_checkpoint, 20)
        assert job.run()[1]["f1"] == SCORES[20][1]
        # Numbered ones take precedence.
        job.add(5)
        job.settings = {"init": 5}
        assert job.run()[0] == named(5)
        assert job.record()["init_checkpoint"] == job.init_checkpoint

    def test_without_checkpoints_nothing_is_scored(self, job):
        with pytest.raises(UserError, match=f"^{job.folder} has no checkpoint.*--init_checkp"):
            job.run()
        job.init_checkpoint = str(job.folder / "nowhere")
        with pytest.raises(UserError, match="nowhere: no such checkpoint"):
            job.run()
        assert list(job.folder.iterdir()) == []
