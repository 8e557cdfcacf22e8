"""Checkpoints on disk: every test writes real ones and reads them with TensorFlow only."""

import logging
import os
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from albert.checkpoints import checkpoint_files
from albert.core.errors import UserError
from tests.helpers.checkpoints import weights, write_checkpoint

DATA = ".data-00000-of-00001"
SUFFIXES = (".index", ".meta", DATA)
BROKEN = r"model\.ckpt-7\b.*damaged or incomplete"
DAMAGES = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "overwritten": lambda content: b"\x5a" * len(content),
}


def write(prefix, value, global_step=None, meta=True):
    """Saves variables `w` (filled with `value`) and, unless it is None, `global_step`."""
    arrays = {"w": np.full(500, value, "f4")}
    if global_step is not None:
        arrays["global_step"] = np.int64(global_step)
    return write_checkpoint(prefix, arrays, meta)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with `model.ckpt-7`; tests that change it work on a copy."""
    folder = tmp_path_factory.mktemp("written")
    write(folder / "model.ckpt-7", value=1.5, global_step=9)
    return folder


@pytest.fixture
def folder(written, tmp_path):
    return shutil.copytree(written, tmp_path / "output")


def copy_as(name, folder, suffixes=SUFFIXES):
    for suffix in suffixes:
        shutil.copy(folder / f"model.ckpt-7{suffix}", folder / f"{name}{suffix}")


class TestResolve:
    @pytest.mark.parametrize("path", ["", "/", *(f"/model.ckpt-7{end}" for end in ("", *SUFFIXES))])
    def test_a_folder_a_prefix_and_any_file_name_it(self, written, path):
        resolved = checkpoint_files.resolve_checkpoint(str(written) + path)
        assert resolved == str(written / "model.ckpt-7")

    def test_folder_names_are_not_patterns(self, folder):
        """`out*` is that folder, not its neighbor `out`, which the pattern also matches."""
        strange = shutil.copytree(folder, folder.parent / "out*")
        copy_as("model.ckpt-8", folder)
        expected = str(strange / "model.ckpt-7")
        assert checkpoint_files.resolve_checkpoint(str(strange)) == expected
        assert checkpoint_files.list_checkpoints(str(strange)) == {7: expected}
        copy_as("v1.2.model", folder)
        assert checkpoint_files.resolve_checkpoint(f"{folder}/v1.2.model.index").endswith(".model")

    def test_a_missing_or_ambiguous_checkpoint_is_an_error(self, folder):
        copy_as(checkpoint_files.BEST, folder)
        best = str(folder / checkpoint_files.BEST)
        assert checkpoint_files.resolve_checkpoint(str(folder)) == best
        other = folder.parent / "other"
        other.mkdir()
        for name in ("first.index", "second.index"):
            (other / name).write_text("")
        for path, message in (
            *((f"{folder}/{n}", f"{n}: no such checkpoint") for n in ("no/such", "model")),
            (f"{folder}/model.ckpt-8.index", "8.index: no such checkpoint"),
            (str(folder.parent), f"{folder.parent.name}.*none"),
            (str(other), r"expected one checkpoint in this folder, found: first, second"),
        ):
            with pytest.raises(UserError, match=message):
                checkpoint_files.resolve_checkpoint(path)

    @pytest.mark.parametrize(
        ("suffix", "damage", "message"),
        [
            (".index", None, "output.*(no such checkpoint|found: none)"),
            *((".index", damage, BROKEN) for damage in DAMAGES.values()),
            *((DATA, damage, BROKEN) for damage in (None, DAMAGES["empty"], DAMAGES["cut"])),
            (".index", "pipe", "index is not a regular file"),
        ],
    )
    def test_a_damaged_checkpoint_is_refused_by_name(self, folder, suffix, damage, message):
        file = folder / f"model.ckpt-7{suffix}"
        content = file.read_bytes()
        file.unlink()
        if damage == "pipe":
            os.mkfifo(file)
        elif damage:
            file.write_bytes(damage(content))
        for path in (folder, folder / "model.ckpt-7", folder / "model.ckpt-7.meta"):
            with pytest.raises(UserError, match=message):
                checkpoint_files.resolve_checkpoint(str(path))


class TestList:
    def test_only_whole_numbered_checkpoints_in_order_of_steps(self, folder):
        for name in ("100", "20", "0", "best"):
            copy_as(f"model.ckpt-{name}", folder)
        for name in ("6", "8", "30"):
            copy_as(f"model.ckpt-{name}", folder, [DATA])
        copy_as("model.ckpt-9", folder, [".index"])
        for name in ("8.index", "40.meta", "50.index.tmp", "80-best.index"):
            (folder / f"model.ckpt-{name}").touch()
        actual = checkpoint_files.list_checkpoints(str(folder))
        expected = [(step, str(folder / f"model.ckpt-{step}")) for step in (0, 7, 20, 100)]
        assert list(actual.items()) == expected

    @pytest.mark.parametrize(
        ("name", "stored", "step"),
        [
            *(("model.ckpt-12", 9, 9), ("model.ckpt-12", 0, 0), ("model.ckpt-12", None, 12)),
            *(("model.ckpt-best", None, 0), ("v2", None, 0), ("ckpt-3-x", None, 0)),
        ],
    )
    def test_the_step_is_the_stored_one_or_the_names(self, tmp_path, name, stored, step):
        prefix = write(tmp_path / name, value=1, global_step=stored)
        assert checkpoint_files.checkpoint_step(prefix) == step

    def test_keep_last_keeps_the_newest_and_the_best(self, folder):
        for name in ("model.ckpt-9", "model.ckpt-20", "model.ckpt-best"):
            copy_as(name, folder)
        for count, kept in ((0, [7, 9, 20]), (5, [7, 9, 20]), (2, [9, 20]), (1, [20])):
            checkpoint_files.keep_last(str(folder), count)
            assert list(checkpoint_files.list_checkpoints(str(folder))) == kept
        assert (folder / "model.ckpt-best.index").exists()


def assert_holds(prefix, value, step):
    expected = {"w": np.full(500, value, "f4"), "global_step": step}
    np.testing.assert_equal(weights(prefix.parent, prefix.name), expected)


class TestCopy:
    @pytest.fixture
    def copy(self, folder):
        copy = folder / checkpoint_files.BEST
        checkpoint_files.copy_checkpoint(str(folder / "model.ckpt-7"), str(copy))
        return copy

    def test_a_copy_outlives_its_source_and_replaces_an_older_one(self, folder, copy):
        source = folder / "model.ckpt-7"
        for prefix in (source, copy):
            assert_holds(prefix, 1.5, 9)
        checkpoint_files.remove_checkpoint(str(source))
        write(source, value=-1, global_step=10, meta=False)
        assert_holds(copy, 1.5, 9)
        checkpoint_files.copy_checkpoint(str(source), str(copy))
        assert_holds(copy, -1, 10)
        assert not (folder / "model.ckpt-best.meta").exists()

    def test_a_copy_that_fails_leaves_no_index(self, folder, copy, monkeypatch):
        """With an index, the target would look whole."""
        calls = iter([shutil.copyfile, shutil.copyfile])
        monkeypatch.setattr(checkpoint_files, "copy_atomically", lambda *paths: next(calls)(*paths))
        with pytest.raises(StopIteration):
            checkpoint_files.copy_checkpoint(str(folder / "model.ckpt-7"), str(copy))
        assert not (folder / "model.ckpt-best.index").exists()


def test_removing_takes_only_that_checkpoint_index_first(folder, monkeypatch):
    copy_as("model.ckpt-70", folder)
    (folder / "model.ckpt").touch()
    removed, remove = [], os.remove
    monkeypatch.setattr(os, "remove", lambda path: removed.append(path) or remove(path))
    for _ in range(2):  # a missing checkpoint is no error
        checkpoint_files.remove_checkpoint(str(folder / "model.ckpt-7"))
        others = [f"model.ckpt-70{suffix}" for suffix in SUFFIXES]
        assert {*os.listdir(folder)} == {"model.ckpt", *others}
    assert removed[0] == str(folder / "model.ckpt-7.index")


def restore(prefix, variable):
    with tf.Graph().as_default(), tf.Session() as session:
        saver = tf.train.Saver([tf.get_variable(variable, [500])])
        with checkpoint_files.restoring(str(prefix)):
            saver.restore(session, str(prefix))


def test_restore_errors_are_one_line(folder):
    restore(folder / "model.ckpt-7", "w")
    with pytest.raises(UserError, match=r"model\.ckpt-7 .*no variable cls/head"):
        restore(folder / "model.ckpt-7", "cls/head")
    with open(folder / f"model.ckpt-7{DATA}", "rb+") as file:
        file.truncate(100)
    with pytest.raises(UserError, match=r"^[^\n]*model\.ckpt-7 [^\n]*damaged[^\n]*$"):
        restore(folder / "model.ckpt-7", "w")
    with pytest.raises(ZeroDivisionError), checkpoint_files.restoring("prefix"):
        raise ZeroDivisionError


class TestNewest:
    def test_an_incomplete_checkpoint_counts_as_absent(self, folder, log):
        copy_as("model.ckpt-9", folder, [DATA])
        (folder / "model.ckpt-9.index").touch()
        for _ in range(2):
            newest = checkpoint_files.newest_checkpoint(str(folder))
            assert newest == (7, str(folder / "model.ckpt-7"))
        (warning,) = log(logging.WARNING)
        assert "model.ckpt-9" in warning and "ignoring this checkpoint" in warning

    def test_at_equal_steps_the_result_is_newer_than_the_resume(self, folder):
        for step, newest in ((6, "model.ckpt-7"), (7, "model.ckpt-7"), (8, "resume.ckpt-8")):
            copy_as(f"resume.ckpt-{step}", folder)
            actual = checkpoint_files.newest_checkpoint(str(folder))
            assert actual == (max(step, 7), str(folder / newest))
        assert list(checkpoint_files.list_checkpoints(str(folder))) == [7], "no results"

    def test_the_file_checkpoint_is_ignored(self, folder):
        for content in (None, b"\x80\x81\0", b'model_checkpoint_path: "/a/b-9"'):
            if content is not None:
                (folder / "checkpoint").write_bytes(content)
            assert checkpoint_files.point_to_newest(str(folder)) == 7
            assert tf.train.latest_checkpoint(str(folder)) == str(folder / "model.ckpt-7")

    def test_without_a_checkpoint_the_newest_step_is_0(self, tmp_path):
        (tmp_path / "checkpoint").write_text('model_checkpoint_path: "/other/run-9"')
        assert checkpoint_files.point_to_newest(str(tmp_path)) == 0
        assert tf.train.latest_checkpoint(str(tmp_path)) is None


def test_extra_data_files_become_part_of_the_checkpoint(tmp_path):
    more = {f"w_{slot}": np.full([3], number, "f4") for number, slot in enumerate("ab")}

    def write_more(session, folder):
        return [write_checkpoint(f"{folder}/{name}", {name: more[name]}) for name in more]

    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.get_variable("w", initializer=np.full(5, 7, "f4")).initializer)
        tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver())
        checkpoint_files.save_checkpoint(session, str(tmp_path), "model.ckpt", 3, write_more)
    np.testing.assert_equal(weights(tmp_path, "model.ckpt-3"), {"w": np.full(5, 7, "f4"), **more})
    data = [f"model.ckpt-3.data-0000{number}-of-00003" for number in range(3)]
    files = ["checkpoint", *data, "model.ckpt-3.index", "model.ckpt-3.meta"]
    assert sorted(os.listdir(tmp_path)) == files
    assert checkpoint_files.list_checkpoints(str(tmp_path)) == {3: str(tmp_path / "model.ckpt-3")}
