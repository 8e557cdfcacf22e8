"""Evaluation: every checkpoint is scored once, and the best one kept."""

import hashlib
import json
import logging
import os

import pytest
import tensorflow.compat.v1 as tf

from runtime.checkpoints.checkpoint_files import remove_checkpoint
from runtime.errors import UserError
from runtime.training.evaluation import Evaluation, Scored

SCORES = {5: (20.0, 40.5), 10: (30.0, 60.25), 15: (35.0, 60.25), 20: (10.0, 50.0)}


@pytest.fixture(scope="module")
def save(tmp_path_factory):
    """Writes checkpoints whose only variable besides the step has the step's value."""
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.train.get_or_create_global_step()
        weight = tf.get_variable("weight", [3])
        saver = tf.train.Saver(max_to_keep=0)
        without_step = tf.train.Saver([weight])
        session.run(tf.global_variables_initializer())

        def save(prefix, number, with_step=True):
            step.load(number, session)
            weight.load([float(number)] * 3, session)
            (saver if with_step else without_step).save(
                session, str(prefix), write_meta_graph=False, write_state=False
            )

        yield save


class Place:
    """A run's folder: its checkpoints, and an evaluation of them."""

    def __init__(self, folder, save):
        self.folder, self.save = folder, save
        self.scored = []  # basenames, in the order in which they were scored
        self.settings = {"predict_file": "sha256:aa", "n_best_size": 20}
        self.key, self.init_checkpoint = "f1", None
        self.scores = dict(SCORES)
        self.output = folder / "predictions.json"

    def add(self, *steps):
        for step in steps:
            self.save(self.folder / f"model.ckpt-{step}", step)

    def evaluation(self):
        return Evaluation(
            str(self.folder), self.key, self.settings, [str(self.output)], self.init_checkpoint
        )

    def run(self):
        """A run of the program; returns what it has scored, and the best entry."""
        self.scored = []
        best = self.evaluation().score_all(self.score)
        return self.scored, best

    def score(self, checkpoint):
        self.scored.append(os.path.basename(checkpoint))
        weight = tf.train.load_variable(checkpoint, "weight")
        exact_match, f1 = self.scores[int(weight[0])]
        return Scored(
            {"exact_match": exact_match, "f1": f1},
            lambda: self.output.write_text(str(int(weight[0]))),
        )

    def record(self):
        return json.loads((self.folder / "eval_results.json").read_text(encoding="utf-8"))

    def text(self):
        return (self.folder / "eval_results.txt").read_text(encoding="utf-8")

    def best_copy(self):
        """The step of model.ckpt-best."""
        prefix = str(self.folder / "model.ckpt-best")
        weight, step = (tf.train.load_variable(prefix, n) for n in ("weight", "global_step"))
        assert weight[0] == step
        return int(step)

    def curves(self):
        """Step, name and value of every point, in the order of the files."""
        points = []
        for path in sorted((self.folder / "eval").iterdir()):
            for event in tf.train.summary_iterator(str(path)):
                points += [(event.step, v.tag, v.simple_value) for v in event.summary.value]
        return points


@pytest.fixture
def place(tmp_path, save):
    return Place(tmp_path, save)


@pytest.fixture
def warnings(caplog, monkeypatch):
    """What was warned of."""
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    return lambda: [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


def named(*steps):
    return [f"model.ckpt-{step}" for step in steps]


class TestBest:
    def test_of_several_the_best_by_its_key_and_of_equals_the_first(self, place):
        place.add(20, 5, 15, 10)
        scored, best = place.run()
        assert scored == named(5, 10, 15, 20)
        assert best == {
            "exact_match": 30.0,
            "f1": 60.25,
            "global_step": 10,
            "checkpoint": "model.ckpt-10",
        }
        assert place.best_copy() == 10
        assert place.output.read_text() == "10"
        lines = place.text().splitlines()
        saved = [line for line in lines if line.startswith("saved")]
        assert saved == [f"saved model.ckpt-{step} to model.ckpt-best" for step in (5, 10)]
        assert lines[-1] == "best perf happened at step: 10"

    def test_by_other_settings_the_only_copy_of_the_best_is_not_lost(self, place):
        """Of which the numbered one was removed, as programs do that keep the last few."""
        place.add(5, 10, 15, 20)
        place.run()
        for step in (5, 10):
            remove_checkpoint(str(place.folder / f"model.ckpt-{step}"))
        place.settings = {"predict_file": "sha256:bb", "n_best_size": 20}
        scored, best = place.run()
        assert scored == named(10, 15, 20)
        assert best["global_step"] == place.best_copy() == 10
        place.scores[20] = (90.0, 90.0)
        place.settings = {"predict_file": "sha256:cc", "n_best_size": 20}
        assert place.run()[1]["global_step"] == place.best_copy() == 20
        assert (place.folder / "model.ckpt-10.index").exists()

    def test_a_damaged_best_is_replaced(self, place):
        place.add(5, 10)
        place.run()
        # Its files may be those of model.ckpt-10, by a hard link.
        (place.folder / "model.ckpt-best.index").unlink()
        (place.folder / "model.ckpt-best.index").write_bytes(b"damaged")
        place.settings = {"predict_file": "sha256:bb", "n_best_size": 20}
        assert place.run()[0] == named(5, 10)
        assert place.best_copy() == 10

    def test_by_another_key(self, place):
        place.add(5, 10, 15, 20)
        place.key = "exact_match"
        assert place.run()[1]["global_step"] == 15
        assert place.best_copy() == 15 and place.output.read_text() == "15"

    def test_by_the_step_where_there_are_no_scores(self, place):
        place.add(5, 20, 10)
        place.key = "global_step"
        assert place.run()[1]["global_step"] == 20
        assert place.best_copy() == 20 and place.output.read_text() == "20"

    def test_the_checkpoints_themselves_stay(self, place):
        place.add(5, 10)
        before = {f: f.read_bytes() for f in place.folder.iterdir()}
        place.run()
        assert len(before) == 4 and all(f.read_bytes() == before[f] for f in before)

    def test_the_copy_is_whole(self, place):
        place.add(10)
        place.run()
        names = {f.name for f in place.folder.glob("model.ckpt-best*")}
        assert names == {"model.ckpt-best.index", "model.ckpt-best.data-00000-of-00001"}

    def test_steps_in_order_of_number(self, place):
        place.scores = {9: (1.0, 1.0), 10: (1.0, 1.0), 100: (1.0, 1.0)}
        place.add(100, 9, 10)
        assert place.run()[0] == named(9, 10, 100)


class TestResumed:
    def test_nothing_left_to_do(self, place, caplog, monkeypatch):
        monkeypatch.setattr(tf.get_logger(), "propagate", True)
        caplog.set_level(logging.INFO, tf.get_logger().name)
        place.add(5, 10)
        _, best = place.run()
        files = {f: f.stat().st_mtime_ns for f in place.folder.rglob("*")}
        assert place.run() == ([], best)
        assert {f: f.stat().st_mtime_ns for f in place.folder.rglob("*")} == files
        assert "All 2 checkpoints are scored already" in caplog.text

    def test_new_checkpoints_only(self, place):
        place.add(5, 10)
        place.run()
        place.add(15, 20)
        scored, best = place.run()
        assert scored == named(15, 20)
        assert best["global_step"] == 10 and place.best_copy() == 10
        assert [entry["global_step"] for entry in place.record()["history"]] == [5, 10, 15, 20]

    def test_a_new_one_that_is_better(self, place):
        place.add(5)
        place.run()
        place.add(10)
        assert place.run()[1]["global_step"] == 10
        assert place.best_copy() == 10 and place.output.read_text() == "10"

    def test_stopped_while_scoring(self, place):
        place.add(5, 10, 15)

        def stop(checkpoint):
            if checkpoint.endswith("15"):
                raise KeyboardInterrupt
            return place.score(checkpoint)

        with pytest.raises(KeyboardInterrupt):
            place.evaluation().score_all(stop)
        assert place.best_copy() == 10
        assert place.run()[0] == named(15)

    def test_stopped_while_the_best_is_written(self, place):
        place.add(5, 10)

        def stop(checkpoint):
            scores, write = place.score(checkpoint)
            return Scored(scores, write if checkpoint.endswith("5") else interrupt)

        with pytest.raises(KeyboardInterrupt):
            place.evaluation().score_all(stop)
        scored, _ = place.run()
        assert scored == named(10)
        assert place.best_copy() == 10 and place.output.read_text() == "10"

    @pytest.mark.parametrize("change", ["value", "more", "fewer"])
    def test_other_settings(self, place, change):
        place.add(5, 10)
        place.run()
        changed = {
            "value": {**place.settings, "n_best_size": 5},
            "more": {**place.settings, "max_answer_length": 30},
            "fewer": {"n_best_size": 20},
        }
        place.settings = changed[change]
        place.scores[5] = (90.0, 91.0)
        scored, best = place.run()
        assert scored == named(5, 10) and best["global_step"] == 5
        assert place.record()["settings"] == place.settings
        assert len(place.record()["history"]) == 2
        assert place.run()[0] == []

    def test_a_missing_output(self, place):
        place.add(5, 10)
        place.run()
        place.output.unlink()
        assert place.run()[0] == named(5, 10)
        assert place.output.read_text() == "10"

    def test_a_missing_copy_of_the_best(self, place):
        """It is an output as well; without it nothing would be exported but the newest."""
        place.add(5, 10, 20)
        place.run()
        for path in place.folder.glob("model.ckpt-best*"):
            path.unlink()
        place.run()
        assert place.best_copy() == 10

    @pytest.mark.parametrize("name", ["predictions.json", "model.ckpt-best.index"])
    @pytest.mark.parametrize("damage", ["emptied", "a byte"])
    def test_a_damaged_output(self, place, name, damage, warnings):
        place.add(5, 10)
        place.run()
        path = place.folder / name
        whole = path.read_bytes()
        # Not in place: a hard link of the file may be that of model.ckpt-10.
        path.unlink()
        path.write_bytes(b"" if damage == "emptied" else bytes([whole[0] ^ 1]) + whole[1:])
        assert place.run()[0] == named(5, 10)
        assert path.read_bytes() == whole and place.best_copy() == 10
        assert warnings()[0] == f"{path} is missing or not what was written: all is scored anew"
        assert place.run()[0] == []

    def test_a_best_checkpoint_without_data(self, place):
        place.add(5, 10)
        place.run()
        (place.folder / "model.ckpt-best.data-00000-of-00001").unlink()
        assert place.run()[0] == named(5, 10)
        assert place.best_copy() == 10

    def test_a_record_that_does_not_list_files(self, place):
        """As they were written once."""
        place.add(5, 10)
        place.run()
        record = place.record()
        del record["files"]
        (place.folder / "eval_results.json").write_text(json.dumps(record))
        assert place.run()[0] == []

    @pytest.mark.parametrize(
        "content",
        ["", "{", '{"version": 0}', "{}", "[]", "null", "3", "\udcff", "[" * 100_000],
    )
    def test_a_record_that_is_none(self, place, content):
        place.add(5)
        place.run()
        (place.folder / "eval_results.json").write_bytes(content.encode(errors="surrogateescape"))
        assert place.run()[0] == named(5)
        assert place.record()["f1"] == 40.5

    def test_a_record_of_another_version(self, place):
        place.add(5)
        place.run()
        (place.folder / "eval_results.json").write_text(json.dumps(place.record() | {"version": 0}))
        assert place.run()[0] == named(5)

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            *(("history", value) for value in (None, 3, "x", {"a": 1}, [3], ["x"], [[]], [{}])),
            *(("files", value) for value in (None, 3, "x", [3], ["predictions.json"])),
            ("files", {"predictions.json": 3}),
        ],
    )
    def test_a_record_that_was_changed(self, place, key, value, warnings):
        place.add(5)
        place.run()
        (place.folder / "eval_results.json").write_text(json.dumps(place.record() | {key: value}))
        assert place.run()[0] == named(5)
        assert len(warnings()) == 1 and "all is scored anew" in warnings()[0]

    @pytest.mark.parametrize(
        "change", [{"f1": "x"}, {"f1": None}, {"global_step": []}, {"checkpoint": []}]
    )
    def test_an_entry_that_was_changed(self, place, change, warnings):
        place.add(5, 10)
        place.run()
        record = place.record()
        record["history"][1] |= change
        (place.folder / "eval_results.json").write_text(json.dumps(record))
        assert place.run()[0] == named(5, 10)
        assert warnings() == [
            f"{place.folder / 'eval_results.json'} is damaged: all is scored anew"
        ]


def interrupt():
    raise KeyboardInterrupt


class TestWhatThereIs:
    def test_falls_back_to_the_best(self, place):
        """Numbered checkpoints may have been removed to save space."""
        place.save(place.folder / "model.ckpt-best", 10)
        scored, best = place.run()
        assert scored == ["model.ckpt-best"]
        assert best["global_step"] == 10 and best["checkpoint"] == "model.ckpt-best"
        assert place.best_copy() == 10
        assert place.run()[0] == []

    def test_the_best_again_when_the_numbered_are_gone(self, place):
        place.add(5, 10, 20)
        place.run()
        for step in (5, 10, 20):
            for path in place.folder.glob(f"model.ckpt-{step}.*"):
                path.unlink()
        place.settings = {"n_best_size": 1}
        scored, best = place.run()
        assert scored == ["model.ckpt-best"] and best["global_step"] == 10
        assert place.best_copy() == 10

    @pytest.fixture(params=["start.ckpt", "model.ckpt-best", "model.ckpt-15"])
    def initial(self, request, place):
        """An initial checkpoint elsewhere, under names that are common."""
        place.save(place.folder / "pretrained" / request.param, 15)
        place.init_checkpoint = str(place.folder / "pretrained" / request.param)
        return request.param

    def test_falls_back_to_the_initial_checkpoint(self, place, initial):
        scored, best = place.run()
        assert scored == [initial]
        assert (best["checkpoint"], best["global_step"], best["f1"]) == (initial, 15, 60.25)
        assert place.output.read_text() == "15"
        assert not list(place.folder.glob("model.ckpt-*")), "it stays where it is"
        assert place.record()["init_checkpoint"] == place.init_checkpoint

    def test_another_initial_checkpoint_in_the_same_folder(self, place):
        """Its scores are its own, not those of the first."""
        for step, f1 in ((10, SCORES[10][1]), (20, SCORES[20][1])):
            prefix = place.folder / f"init{step}" / "start.ckpt"
            place.save(prefix, step)
            place.init_checkpoint, place.settings = str(prefix), {"init": step}
            assert place.run()[1]["f1"] == f1

    def test_the_initial_checkpoint_is_scored_once(self, place, initial):
        """The same command ends at once when all is done."""
        place.run()
        history = place.record()["history"]
        assert place.run()[0] == []
        assert place.record()["history"] == history

    def test_numbered_checkpoints_come_first(self, place, initial):
        place.add(5)
        scored, _ = place.run()
        assert scored == named(5)
        assert place.record()["init_checkpoint"] == place.init_checkpoint

    def test_an_initial_checkpoint_without_a_step(self, place):
        place.save(place.folder / "init" / "model.ckpt", 20, with_step=False)
        place.init_checkpoint = str(place.folder / "init")
        scored, best = place.run()
        assert scored == ["model.ckpt"] and best["global_step"] == 0

    def test_nothing(self, place):
        with pytest.raises(UserError, match="no checkpoint to score") as caught:
            place.run()
        assert str(place.folder) in str(caught.value) and "--init_checkpoint" in str(caught.value)
        assert list(place.folder.iterdir()) == []

    def test_an_initial_checkpoint_that_is_not_there(self, place):
        place.init_checkpoint = str(place.folder / "nowhere")
        with pytest.raises(UserError, match="nowhere: no checkpoint there"):
            place.run()


class TestResults:
    def test_json(self, place):
        place.add(5, 10)
        place.init_checkpoint = "some/where"
        place.run()
        record = place.record()
        entries = [
            {
                "exact_match": SCORES[step][0],
                "f1": SCORES[step][1],
                "global_step": step,
                "checkpoint": f"model.ckpt-{step}",
            }
            for step in (5, 10)
        ]
        best = {key: record.pop(key) for key in entries[1]}
        assert best == entries[1]
        files = record.pop("files")
        assert files.keys() == {"predictions.json", "model.ckpt-best.index"}
        assert files["predictions.json"] == hashlib.sha256(b"10").hexdigest()
        assert record == {
            "init_checkpoint": "some/where",
            "history": entries,
            "settings": place.settings,
            "version": 1,
        }

    def test_text_of_the_reference(self, place):
        place.add(5, 10, 20)
        place.run()
        line = "=" * 50
        assert place.text().splitlines() == [
            *("exact_match = 20.0", "f1 = 40.5"),
            *("saved model.ckpt-5 to model.ckpt-best", "best f1 = 40.5", line),
            *("exact_match = 30.0", "f1 = 60.25"),
            *("saved model.ckpt-10 to model.ckpt-best", "best f1 = 60.25", line),
            *("exact_match = 10.0", "f1 = 50.0"),
            *("best f1 = 60.25", line),
            *("exact_match = 30.0", "f1 = 60.25"),
            "best perf happened at step: 10",
        ]

    def test_text_has_the_whole_history(self, place):
        place.add(5)
        place.run()
        place.add(10)
        place.run()
        one_run = place.text()
        (place.folder / "eval_results.json").unlink()
        place.run()
        assert place.text() == one_run

    def test_curves(self, place):
        place.add(5, 10, 20)
        place.run()
        expected = [
            (step, name, value)
            for step in (5, 10, 20)
            for name, value in zip(("exact_match", "f1"), SCORES[step], strict=True)
        ]
        assert sorted(place.curves()) == expected

    def test_curves_of_a_resumed_run(self, place):
        place.add(5)
        place.run()
        place.add(10)
        place.run()
        assert sorted({step for step, *_ in place.curves()}) == [5, 10]

    def test_log(self, place, caplog, monkeypatch):
        monkeypatch.setattr(tf.get_logger(), "propagate", True)
        caplog.set_level(logging.INFO, tf.get_logger().name)
        place.add(5, 20, 15)
        place.run()
        lines = [r.getMessage() for r in caplog.records if "f1" in r.getMessage()]
        assert lines == [
            "model.ckpt-5: exact_match 20  f1 40.5 (best so far)",
            "model.ckpt-15: exact_match 35  f1 60.25 (best so far)",
            "model.ckpt-20: exact_match 10  f1 50",
        ]
