"""Checkpoints on disk: every test writes real ones and reads them with TensorFlow alone."""

import os
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from runtime.checkpoints import checkpoint_files
from runtime.errors import UserError

SUFFIXES = (".index", ".meta", ".data-00000-of-00001")


def write(prefix, value, global_step=None, meta=True):
    """Saves variables `w` (filled with `value`) and, unless it is None, `global_step`."""
    with tf.Graph().as_default(), tf.Session() as session:
        variables = [tf.get_variable("w", initializer=np.full(500, value, "f4"))]
        if global_step is not None:
            step = tf.get_variable("global_step", initializer=tf.constant(global_step, tf.int64))
            variables.append(step)
        session.run(tf.global_variables_initializer())
        saver = tf.train.Saver(variables)
        return saver.save(session, str(prefix), write_meta_graph=meta, write_state=False)


def read(prefix):
    """All variables of a checkpoint, by name."""
    reader = tf.train.load_checkpoint(str(prefix))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def names(folder):
    return sorted(os.listdir(folder))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with `model.ckpt-7`; tests that change it work on a copy."""
    folder = tmp_path_factory.mktemp("written")
    write(folder / "model.ckpt-7", value=1.5, global_step=9)
    return folder


@pytest.fixture
def folder(written, tmp_path):
    """A folder of the test's own with `model.ckpt-7`."""
    shutil.copytree(written, tmp_path / "output")
    return tmp_path / "output"


# resolve_checkpoint


@pytest.mark.parametrize("suffix", ["", *SUFFIXES])
def test_resolve_a_prefix_or_any_of_its_files(written, suffix):
    expected = str(written / "model.ckpt-7")
    assert checkpoint_files.resolve_checkpoint(expected + suffix) == expected


@pytest.mark.parametrize("end", ["", os.sep])
def test_resolve_a_folder_with_one_checkpoint(written, end):
    resolved = checkpoint_files.resolve_checkpoint(str(written) + end)
    assert resolved == str(written / "model.ckpt-7")


def test_resolve_without_a_meta_file(folder):
    os.remove(folder / "model.ckpt-7.meta")
    assert checkpoint_files.resolve_checkpoint(str(folder)) == str(folder / "model.ckpt-7")


def test_resolve_a_folder_whose_name_is_a_pattern(folder):
    """`out*` is that folder, and not the one beside it that the pattern matches too."""
    strange = folder.parent / "out*"
    shutil.copytree(folder, strange)
    assert checkpoint_files.resolve_checkpoint(str(strange)) == str(strange / "model.ckpt-7")


def test_resolve_a_prefix_with_dots(written, tmp_path):
    for suffix in SUFFIXES:
        shutil.copy(written / f"model.ckpt-7{suffix}", tmp_path / f"v1.2.model{suffix}")
    expected = str(tmp_path / "v1.2.model")
    assert checkpoint_files.resolve_checkpoint(expected) == expected
    assert checkpoint_files.resolve_checkpoint(expected + ".index") == expected


def test_resolve_an_empty_folder_is_an_error(tmp_path):
    with pytest.raises(UserError, match=f"{tmp_path.name}.*none"):
        checkpoint_files.resolve_checkpoint(str(tmp_path))


def test_resolve_a_folder_with_several_checkpoints_is_an_error_that_names_them(folder):
    write(folder / "model.ckpt-best", value=2)
    with pytest.raises(UserError, match=r"model\.ckpt-7, model\.ckpt-best"):
        checkpoint_files.resolve_checkpoint(str(folder))
    expected = str(folder / "model.ckpt-best")
    assert checkpoint_files.resolve_checkpoint(expected) == expected


@pytest.mark.parametrize("name", ["model.ckpt-8", "model.ckpt-8.index", "model.ckpt", "no/such"])
def test_resolve_what_is_not_there_is_an_error(written, name):
    with pytest.raises(UserError, match=name):
        checkpoint_files.resolve_checkpoint(str(written / name))


def test_resolve_does_not_wait_for_a_pipe(folder):
    os.remove(folder / "model.ckpt-7.index")
    os.mkfifo(folder / "model.ckpt-7.index")
    for path in (folder, folder / "model.ckpt-7"):
        with pytest.raises(UserError, match=r"model\.ckpt-7\.index is not a regular file"):
            checkpoint_files.resolve_checkpoint(str(path))


def test_resolve_a_checkpoint_whose_index_is_missing_is_an_error(folder):
    os.remove(folder / "model.ckpt-7.index")
    for path in (folder, folder / "model.ckpt-7", folder / "model.ckpt-7.meta"):
        with pytest.raises(UserError, match="output"):
            checkpoint_files.resolve_checkpoint(str(path))


def cut(path, size):
    with open(path, "rb+") as file:
        file.truncate(size)


def overwrite(path):
    size = os.path.getsize(path)
    with open(path, "wb") as file:
        file.write(b"\x5a" * size)


DAMAGES = {
    "missing": os.remove,
    "empty": lambda path: cut(path, 0),
    "cut": lambda path: cut(path, os.path.getsize(path) // 2),
}


def assert_damaged(folder):
    """Whether by its folder or by its prefix, the checkpoint is refused by name."""
    for path in (folder, folder / "model.ckpt-7"):
        with pytest.raises(UserError, match=r"model\.ckpt-7.*damaged or incomplete"):
            checkpoint_files.resolve_checkpoint(str(path))


@pytest.mark.parametrize("damage", [DAMAGES["empty"], DAMAGES["cut"], overwrite])
def test_resolve_a_checkpoint_with_a_damaged_index_is_an_error(folder, damage):
    damage(folder / "model.ckpt-7.index")
    assert_damaged(folder)


@pytest.mark.parametrize("damage", DAMAGES)
def test_resolve_a_checkpoint_without_all_its_data_is_an_error(folder, damage):
    DAMAGES[damage](folder / "model.ckpt-7.data-00000-of-00001")
    assert_damaged(folder)


# list_checkpoints and checkpoint_step


def test_list_is_in_order_of_steps_and_leaves_out_what_is_not_numbered_or_not_whole(folder):
    for name in ("model.ckpt-100", "model.ckpt-20", "model.ckpt-0", "model.ckpt-best"):
        for file in folder.glob("model.ckpt-7.*"):
            shutil.copy(file, folder / f"{name}{file.name[12:]}")
    for name in ("model.ckpt-6", "model.ckpt-8"):
        shutil.copy(
            folder / "model.ckpt-7.data-00000-of-00001", folder / f"{name}.data-00000-of-00001"
        )
    shutil.copy(folder / "model.ckpt-7.index", folder / "model.ckpt-9.index")
    (folder / "model.ckpt-8.index").touch()
    for name in (
        "model.ckpt-30.data-00000-of-00001",
        "model.ckpt-40.meta",
        "model.ckpt-50.index.tmp",
        ".model.ckpt-60.index",
        "model.ckpt-80-best.index",
        "other.ckpt-70.index",
        "graph.pbtxt",
    ):
        (folder / name).touch()
    found = checkpoint_files.list_checkpoints(str(folder))
    assert list(found.items()) == [
        (step, str(folder / f"model.ckpt-{step}")) for step in (0, 7, 20, 100)
    ]


def test_list_of_a_folder_without_checkpoints_or_of_no_folder_is_empty(tmp_path):
    assert checkpoint_files.list_checkpoints(str(tmp_path)) == {}
    assert checkpoint_files.list_checkpoints(str(tmp_path / "absent")) == {}


def test_list_of_a_folder_whose_name_is_a_pattern(folder):
    strange = folder.parent / "out*"
    strange.mkdir()
    for file in folder.glob("model.ckpt-7.*"):
        shutil.copy(file, strange / f"model.ckpt-8{file.name[12:]}")
    assert checkpoint_files.list_checkpoints(str(strange)) == {8: str(strange / "model.ckpt-8")}


def test_step_is_the_stored_one(written):
    assert checkpoint_files.checkpoint_step(str(written / "model.ckpt-7")) == 9


@pytest.mark.parametrize(
    "name, step",
    [("model.ckpt-12", 12), ("model.ckpt-best", 0), ("v2", 0), ("ckpt-3-x", 0)],
)
def test_step_without_a_stored_one_is_that_of_the_name(tmp_path, name, step):
    assert checkpoint_files.checkpoint_step(write(tmp_path / name, value=1)) == step


def test_stored_step_0_wins_over_the_name(tmp_path):
    prefix = write(tmp_path / "model.ckpt-12", value=1, global_step=0)
    assert checkpoint_files.checkpoint_step(prefix) == 0


# copy_checkpoint and remove_checkpoint


def assert_holds(prefix, value, step):
    content = read(prefix)
    assert content.keys() == {"w", "global_step"}
    np.testing.assert_array_equal(content["w"], np.full(500, value, "f4"))
    assert content["global_step"] == step


def test_copy_has_the_content_and_only_the_files(folder):
    source, target = folder / "model.ckpt-7", folder / checkpoint_files.BEST
    checkpoint_files.copy_checkpoint(str(source), str(target))
    assert_holds(target, 1.5, 9)
    assert_holds(source, 1.5, 9)
    assert names(folder) == sorted(
        f"{name}{suffix}" for name in ("model.ckpt-7", "model.ckpt-best") for suffix in SUFFIXES
    )


def test_copy_outlives_its_source(folder):
    source, target = folder / "model.ckpt-7", folder / checkpoint_files.BEST
    checkpoint_files.copy_checkpoint(str(source), str(target))
    checkpoint_files.remove_checkpoint(str(source))
    assert names(folder) == sorted(f"model.ckpt-best{suffix}" for suffix in SUFFIXES)
    assert_holds(target, 1.5, 9)


def test_copy_stays_when_another_is_saved_under_the_sources_name(folder):
    source, target = folder / "model.ckpt-7", folder / checkpoint_files.BEST
    checkpoint_files.copy_checkpoint(str(source), str(target))
    write(source, value=-1, global_step=10)
    assert_holds(source, -1, 10)
    assert_holds(target, 1.5, 9)


def test_copy_replaces_an_older_one_and_leaves_nothing_of_it(folder):
    write(folder / "model.ckpt-8", value=3, global_step=8, meta=False)
    target = folder / checkpoint_files.BEST
    checkpoint_files.copy_checkpoint(str(folder / "model.ckpt-7"), str(target))
    checkpoint_files.copy_checkpoint(str(folder / "model.ckpt-8"), str(target))
    assert_holds(target, 3, 8)
    assert_holds(folder / "model.ckpt-7", 1.5, 9)
    assert not (folder / "model.ckpt-best.meta").exists()


def test_copy_to_another_folder(folder, tmp_path):
    target = tmp_path / "elsewhere" / "model"
    checkpoint_files.copy_checkpoint(str(folder / "model.ckpt-7"), str(target))
    assert_holds(target, 1.5, 9)


def test_copy_that_breaks_off_leaves_no_index(folder, monkeypatch):
    """With one in place the target would look whole."""
    target = folder / checkpoint_files.BEST
    checkpoint_files.copy_checkpoint(str(folder / "model.ckpt-7"), str(target))
    copied = []

    def fail_at_the_last(source, to):
        if len(copied) == 2:
            raise OSError("no space left on device")
        copied.append(to)
        shutil.copyfile(source, to)

    monkeypatch.setattr(checkpoint_files, "copy_atomically", fail_at_the_last)
    with pytest.raises(OSError, match="no space"):
        checkpoint_files.copy_checkpoint(str(folder / "model.ckpt-7"), str(target))
    assert len(copied) == 2
    assert not (folder / "model.ckpt-best.index").exists()


def test_remove_takes_all_files_of_one_checkpoint_and_no_others(folder):
    write(folder / "model.ckpt-70", value=2, meta=False)
    (folder / "model.ckpt").touch()
    checkpoint_files.remove_checkpoint(str(folder / "model.ckpt-7"))
    left = ["model.ckpt", "model.ckpt-70.data-00000-of-00001", "model.ckpt-70.index"]
    assert names(folder) == left


def test_remove_takes_the_index_first(folder, monkeypatch):
    removed = []
    monkeypatch.setattr(os, "remove", removed.append)
    checkpoint_files.remove_checkpoint(str(folder / "model.ckpt-7"))
    assert removed[0] == str(folder / "model.ckpt-7.index")
    assert len(removed) == 3


def test_remove_what_is_not_there_is_no_error(folder):
    before = names(folder)
    checkpoint_files.remove_checkpoint(str(folder / "model.ckpt-8"))
    assert names(folder) == before


# restoring


def restore(prefix, variable):
    """Restores one variable of 500 numbers from a checkpoint."""
    with tf.Graph().as_default(), tf.Session() as session:
        saver = tf.train.Saver([tf.get_variable(variable, [500])])
        with checkpoint_files.restoring(str(prefix)):
            saver.restore(session, str(prefix))


def test_restoring_what_fits_raises_nothing(written):
    restore(written / "model.ckpt-7", "w")


def test_restoring_a_variable_that_is_missing_names_it(written):
    with pytest.raises(UserError, match=r"model\.ckpt-7 .*no variable cls/head"):
        restore(written / "model.ckpt-7", "cls/head")


def test_restoring_damaged_data_is_an_error_in_one_line(folder):
    cut(folder / "model.ckpt-7.data-00000-of-00001", 100)
    with pytest.raises(UserError, match=r"model\.ckpt-7 .*damaged") as caught:
        restore(folder / "model.ckpt-7", "w")
    assert "\n" not in str(caught.value)


def test_restoring_lets_other_errors_through():
    with pytest.raises(ZeroDivisionError), checkpoint_files.restoring("prefix"):
        raise ZeroDivisionError


# keep_last


@pytest.mark.parametrize(
    ("count", "kept"), [(1, [20]), (2, [9, 20]), (5, [7, 9, 20]), (0, [7, 9, 20])]
)
def test_keep_last(folder, count, kept):
    write(folder / "model.ckpt-9", value=1.0)
    write(folder / "model.ckpt-20", value=2.0)
    write(folder / "model.ckpt-best", value=3.0)
    checkpoint_files.keep_last(str(folder), count)
    assert list(checkpoint_files.list_checkpoints(str(folder))) == kept
    assert (folder / "model.ckpt-best.index").exists()


# newest_checkpoint and point_to_newest


def empty_index(folder):
    """What a crash has left of a checkpoint whose data is there, as TensorFlow writes it."""
    shutil.copy(
        folder / "model.ckpt-7.data-00000-of-00001", folder / "model.ckpt-9.data-00000-of-00001"
    )
    (folder / "model.ckpt-9.index").touch()


def test_one_that_is_not_whole_counts_as_absent(folder, caplog, monkeypatch):
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    empty_index(folder)
    for _ in range(2):
        assert checkpoint_files.newest_checkpoint(str(folder)) == (7, str(folder / "model.ckpt-7"))
    (warning,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert "model.ckpt-9" in warning and "left out of account" in warning


def test_of_both_kinds_the_newest_and_of_the_same_step_the_result(folder):
    write(folder / "resume.ckpt-6", value=1.0)
    assert checkpoint_files.newest_checkpoint(str(folder)) == (7, str(folder / "model.ckpt-7"))
    write(folder / "resume.ckpt-7", value=1.0)
    assert checkpoint_files.newest_checkpoint(str(folder)) == (7, str(folder / "model.ckpt-7"))
    write(folder / "resume.ckpt-8", value=1.0)
    assert checkpoint_files.newest_checkpoint(str(folder)) == (8, str(folder / "resume.ckpt-8"))
    assert list(checkpoint_files.list_checkpoints(str(folder))) == [7], "no results"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x80\x81\x00",
        b"model_checkpoint_path: 7",
        b'model_checkpoint_path: "/other/run-9"',
        None,
    ],
    ids=["empty", "no text", "no such text", "another folder", "absent"],
)
def test_whatever_the_file_checkpoint_says(folder, content):
    state = folder / "checkpoint"
    state.unlink(missing_ok=True)
    if content is not None:
        state.write_bytes(content)
    empty_index(folder)
    assert checkpoint_files.point_to_newest(str(folder)) == 7
    assert tf.train.latest_checkpoint(str(folder)) == str(folder / "model.ckpt-7")


def test_without_a_checkpoint_there_is_nothing_to_follow(tmp_path):
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "/other/run-9"')
    assert checkpoint_files.point_to_newest(str(tmp_path)) == 0
    assert tf.train.latest_checkpoint(str(tmp_path)) is None


def test_a_folder_called_checkpoint(folder):
    (folder / "checkpoint").unlink(missing_ok=True)
    (folder / "checkpoint").mkdir()
    with pytest.raises(UserError, match="checkpoint cannot be written"):
        checkpoint_files.point_to_newest(str(folder))


def test_what_is_written_besides_becomes_part_of_the_checkpoint(tmp_path):
    """Under its name there is one checkpoint, with a data file for each that was written."""
    given = {f"w/{slot}": np.full([3], number, "f4") for number, slot in enumerate("ab")}

    def write_more(session, folder):
        prefixes = [os.path.join(folder, str(number)) for number in range(len(given))]
        for prefix, (name, value) in zip(prefixes, given.items(), strict=True):
            with tf.Graph().as_default(), tf.Session() as other:
                other.run(tf.get_variable(name, initializer=value).initializer)
                tf.train.Saver().save(other, prefix, write_meta_graph=False, write_state=False)
        return prefixes

    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.get_variable("w", initializer=np.full(5, 7, "f4")).initializer)
        tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver())
        checkpoint_files.save_checkpoint(session, str(tmp_path), "model.ckpt", 3, write_more)
    found = read(tmp_path / "model.ckpt-3")
    assert found.keys() == {"w", *given}
    for name, value in given.items():
        np.testing.assert_array_equal(found[name], value)
    data = [f"model.ckpt-3.data-0000{number}-of-00003" for number in range(3)]
    assert names(tmp_path) == ["checkpoint", *data, "model.ckpt-3.index", "model.ckpt-3.meta"]
    assert checkpoint_files.list_checkpoints(str(tmp_path)) == {3: str(tmp_path / "model.ckpt-3")}
