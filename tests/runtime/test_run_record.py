"""run.json: a folder is resumed by the run that began it, and by no other."""

import json
import logging

import pytest
import tensorflow.compat.v1 as tf

from runtime.errors import FlagError, UserError
from runtime.run_record import begin_run

SETTINGS = {
    "learning_rate": 5e-05,
    "train_batch_size": 8,
    "train_file": "sha256:aa",
    "init_checkpoint": None,
    "albert_config_file": {"hidden_size": 32, "hidden_dropout_prob": 0.1},
}
OUTPUTS = (
    "model.ckpt-10.index",
    "model.ckpt-10.data-00000-of-00001",
    "model.ckpt-10.meta",
    "model.ckpt-best.index",
    "checkpoint",
    "graph.pbtxt",
    "events.out.tfevents.1.host",
    "eval/events.out.tfevents.2.host",
    "predictions.json",
    "nbest_predictions.json",
    "null_odds.json",
    "eval_results.txt",
    "eval_results.json",
)
OTHERS = (
    "notes.txt",
    "train.tf_record",
    "train.tf_record.json",
    "eval.tf_record",
    "eval_left.npz",
    "evaluation/table.csv",
    "my_model.ckpt-10.index",
    "saved_model/1/saved_model.pb",
)


def begin(folder, overwrite=False, **changes):
    begin_run(str(folder), {**SETTINGS, **changes}, overwrite)


def listing(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@pytest.fixture
def full(tmp_path):
    """A folder with all kinds of files, ours and others, and a record."""
    begin(tmp_path)
    for name in OUTPUTS + OTHERS:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


class TestBegin:
    def test_a_new_folder_gets_a_record(self, tmp_path):
        begin(tmp_path)
        record = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
        assert record == {"version": 1, "settings": SETTINGS}
        assert listing(tmp_path).keys() == {"run.json"}

    def test_the_same_run_changes_nothing(self, full):
        before = listing(full)
        begin(full)
        assert listing(full) == before

    def test_the_order_of_settings_does_not_matter(self, tmp_path):
        begin(tmp_path)
        begin_run(str(tmp_path), dict(reversed(SETTINGS.items())), False)

    def test_a_folder_with_other_things_may_be_used(self, tmp_path):
        for name in ("notes.txt", "train.tf_record", "model.ckpt-best.index", "events.out"):
            (tmp_path / name).write_text("x")
        begin(tmp_path)
        assert (tmp_path / "run.json").exists()


class TestAnotherRun:
    def test_the_flags_that_differ_are_named_with_both_values(self, full):
        before = listing(full)
        with pytest.raises(FlagError) as caught:
            begin(full, learning_rate=1e-4, init_checkpoint="sha256:bb")
        message = str(caught.value)
        assert "--learning_rate (was 5e-05, is 0.0001)" in message
        assert "--init_checkpoint (was None, is sha256:bb)" in message
        assert "train_batch_size" not in message
        assert str(full) in message and "\n" not in message
        assert "another --output_dir" in message and "--overwrite_output_dir" in message
        assert caught.value.exit_code == 2
        assert listing(full) == before

    def test_inside_a_setting(self, full):
        with pytest.raises(FlagError, match="--albert_config_file "):
            begin(full, albert_config_file={"hidden_size": 64, "hidden_dropout_prob": 0.1})

    def test_a_setting_that_is_new_or_gone(self, tmp_path):
        begin(tmp_path)
        with pytest.raises(FlagError, match=r"--warmup \(was None, is 0.1\)"):
            begin(tmp_path, warmup=0.1)
        with pytest.raises(FlagError, match=r"--train_batch_size \(was 8, is None\)"):
            begin_run(str(tmp_path), {k: v for k, v in SETTINGS.items() if "batch" not in k}, False)

    def test_checkpoints_without_a_record(self, full):
        (full / "run.json").unlink()
        before = listing(full)
        with pytest.raises(FlagError, match=r"has checkpoints but no run\.json") as caught:
            begin(full)
        assert "--overwrite_output_dir" in str(caught.value)
        assert listing(full) == before

    @pytest.mark.parametrize(
        "content",
        [b"", b"{", b"[]", b"null", b"{}", b'{"settings": null}', b'{"settings": [1]}', b"\xff"],
    )
    def test_a_damaged_record(self, full, content):
        (full / "run.json").write_bytes(content)
        with pytest.raises(UserError, match=r"run\.json is damaged; give another --output_dir"):
            begin(full)
        assert (full / "run.json").read_bytes() == content

    def test_a_record_that_is_a_folder(self, tmp_path):
        (tmp_path / "run.json").mkdir()
        with pytest.raises(UserError, match="is damaged"):
            begin(tmp_path)


class TestOverwrite:
    @pytest.mark.parametrize("changes", [{}, {"learning_rate": 1.0}], ids=["same", "another"])
    def test_outputs_go_and_other_files_stay(self, full, changes):
        begin(full, overwrite=True, **changes)
        after = listing(full)
        assert after.keys() == {"run.json", *OTHERS}
        assert all(after[name].decode() == name for name in OTHERS)
        begin(full, **changes)

    def test_without_a_record_or_with_a_damaged_one(self, full):
        (full / "run.json").write_text("{")
        begin(full, overwrite=True)
        (full / "run.json").unlink()
        (full / "model.ckpt-3.index").write_text("x")
        begin(full, overwrite=True)
        assert listing(full).keys() == {"run.json", *OTHERS}

    def test_an_empty_folder(self, tmp_path):
        begin(tmp_path, overwrite=True)
        assert listing(tmp_path).keys() == {"run.json"}

    def test_a_name_with_pattern_characters(self, tmp_path):
        folder = tmp_path / "run[1]*"
        folder.mkdir()
        (tmp_path / "run1").mkdir()
        for f in (folder, tmp_path / "run1"):
            (f / "model.ckpt-1.index").write_text("x")
        with pytest.raises(FlagError):
            begin(folder)
        begin(folder, overwrite=True)
        assert listing(tmp_path).keys() == {"run[1]*/run.json", "run1/model.ckpt-1.index"}

    def test_is_logged(self, full, caplog, monkeypatch):
        monkeypatch.setattr(tf.get_logger(), "propagate", True)
        caplog.set_level(logging.INFO, tf.get_logger().name)
        begin(full, overwrite=True)
        assert any(f"removed 14 files in {full}" in r.getMessage() for r in caplog.records)
