"""Files that are whole or absent."""

import contextlib
import errno
import functools
import io
import json
import math
import os
import shutil
import stat
import sys
from unittest import mock

import pytest

from albert.core import files
from albert.core.errors import FlagError, UserError
from albert.core.locks import exclusive
from tests.helpers.files import contents


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("old")
    return tmp_path / "folder"


def write(path, content):
    with files.open_atomically(str(path)) as file:
        file.write(content)


class TestWriting:
    @pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("full")], ids=type)
    def test_an_error_leaves_everything_as_it_was(self, folder, error):
        for name in ("file", "new"):
            with pytest.raises(type(error)), files.open_atomically(str(folder / name)) as file:
                file.write("half")
                raise error
        assert contents(folder) == {"file": b"old"}

    def test_a_full_disk_is_one_line_and_changes_nothing(self, folder, monkeypatch):
        full = mock.Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
        new = str(folder / "new")
        message = f"^{new} cannot be written: No space left on device$"
        with pytest.raises(UserError, match=message), files.open_atomically(new):
            full()
        with monkeypatch.context() as patch, pytest.raises(UserError, match=message):
            patch.setattr(os, "link", full)
            patch.setattr(shutil, "copyfile", full)
            files.copy_atomically(str(folder / "file"), new)
        for name, reason in (("file/below", ""), ("n" * 300, "File name too long")):
            with pytest.raises(UserError, match=f"^{folder / name} cannot be written: {reason}"):
                write(folder / name, "x")
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(UserError, match=message):
            write(new, "x")
        assert contents(folder) == {"file": b"old"}

    @pytest.mark.parametrize("path", ["gs://bucket/a", "/home/me/s3:/bucket/a"])
    def test_a_path_in_remote_storage_makes_no_local_folder(self, folder, monkeypatch, path):
        """The second one is an absolute path that was made of such a path."""
        monkeypatch.chdir(folder)
        makers = files.temporary_name, files.temporary_folder, exclusive
        for make in (*makers, lambda path: files.make_writable_folder(path, "the folder")):
            refused = pytest.raises(FlagError, match=f"{path}: paths are those of this machine")
            with refused, contextlib.ExitStack() as stack:
                stack.enter_context(make(path))
        assert os.listdir(folder) == ["file"]

    def test_errors_about_other_files_pass_through(self, folder):
        with pytest.raises(FileNotFoundError), files.open_atomically(str(folder / "new")):
            (folder / "none").read_text()
        with pytest.raises(KeyError), files.temporary_name(str(folder / "file")) as name:
            os.remove(name)
            raise KeyError
        assert contents(folder) == {"file": b"old"}

    def test_the_old_content_stays_until_the_end(self, folder):
        """Concurrent writers do not mix: the first to begin is the last to end."""
        path = folder / "file"
        with files.open_atomically(str(path)) as one, files.open_atomically(str(path)) as other:
            for file, text in ((one, "one"), (other, "other")):
                file.write(text)
                file.flush()
            assert path.read_text() == "old"
            # In the same folder, so that renaming never copies, under names that no pattern for
            # results matches.
            others = set(os.listdir(folder)) - {"file"}
            assert len(others) == 2 and all(name.startswith(".") for name in others)
        assert contents(folder) == {"file": b"one"}

    @pytest.mark.parametrize("mask", [0o022, 0o077, 0o000])
    def test_the_mode_follows_the_umask(self, folder, mask):
        before = os.umask(mask)
        try:
            write(folder / "new", "x")
        finally:
            assert os.umask(before) == mask
        assert stat.S_IMODE((folder / "new").stat().st_mode) == 0o666 & ~mask

    def test_content_is_on_disk_before_it_has_its_name(self, folder, monkeypatch):
        events = []

        def watched(name, call, file, *more):
            events.append((name, os.stat(file).st_ino, os.stat(file).st_size))
            call(file, *more)

        for name in ("fsync", "replace"):
            call = functools.partial(watched, name, getattr(os, name))
            monkeypatch.setattr(os, name, call)
        write(folder / "file", "new")
        inode = (folder / "file").stat().st_ino
        assert events[:2] == [("fsync", inode, 3), ("replace", inode, 3)]

    def test_text_is_utf8_and_bytes_are_bytes(self, folder, monkeypatch):
        monkeypatch.chdir(folder)
        write("a/b/t", "é中")
        assert (folder / "a" / "b" / "t").read_bytes() == "é中".encode()
        with files.open_atomically("bytes", "wb") as file:
            file.write(b"\xff\x00")
        assert (folder / "bytes").read_bytes() == b"\xff\x00"
        value = {"b": [1, 2.5, None], "a": "é\ud800"}
        files.write_json("j", value, indent=4)
        text = (folder / "j").read_text(encoding="utf-8")
        assert json.loads(text) == value
        assert text.startswith('{\n    "b"') and text.endswith("}\n")
        for members in ({"é\ud800": "<\n", "b": 1, "c": float("nan")}, {}):
            files.write_json("j", members, indent=4)
            files.write_members("m", members.items())
            assert (folder / "m").read_bytes() == (folder / "j").read_bytes()


class TestCopy:
    @pytest.fixture(params=[True, False], ids=["link", "no links"])
    def links(self, request, monkeypatch):
        if not request.param:
            refuse = mock.Mock(side_effect=OSError(errno.EPERM, "no links here"))
            monkeypatch.setattr(os, "link", refuse)
        return request.param

    @pytest.mark.parametrize("target", ["new", "other"])
    def test_a_copy_has_the_content_and_its_source_stays(self, folder, links, target):
        """The source, perhaps a protected pretrained checkpoint, keeps its mode."""
        (folder / "other").write_text("in the way")
        (folder / "file").chmod(0o400)
        files.copy_atomically(str(folder / "file"), str(folder / target))
        assert contents(folder) == {"file": b"old", "other": b"in the way", target: b"old"}
        assert stat.S_IMODE((folder / "file").stat().st_mode) == 0o400
        assert (folder / "file").samefile(folder / target) == links
        # A rename between two hard links to the same file does nothing.
        files.copy_atomically(str(folder / "file"), str(folder / target))
        assert contents(folder).keys() == {"file", "other", target}
        write(folder / "file", "newer")
        assert contents(folder)["file"] == b"newer" and contents(folder)[target] == b"old"

    def test_a_relative_symbolic_link_copies_its_target(self, folder, links, tmp_path_factory):
        (folder / "link").symlink_to("file")
        target = tmp_path_factory.mktemp("elsewhere") / "copy"
        files.copy_atomically(str(folder / "link"), str(target))
        assert target.read_bytes() == b"old" and not target.is_symlink()
        with pytest.raises(FileNotFoundError):
            files.copy_atomically(str(folder / "none"), str(target))
        assert target.read_bytes() == b"old"


def test_only_regular_files_are_readable(folder):
    os.mkfifo(folder / "pipe")
    for name, message in (
        ("none", "cannot be read: No such file or directory"),
        ("", "is a folder, not a file"),
        ("pipe", "is not a regular file"),
        (os.devnull, "is not a regular file"),
    ):
        path = os.path.join(folder, name)
        for check in (files.check_readable, files.read_json):
            with pytest.raises(UserError, match=f"^--some_flag {path} {message}$"):
                check(path, "--some_flag")
        for read in (files.content_of, files.read_bytes) if "regular" in message else ():
            with pytest.raises(UserError, match=f"^{path} {message}$"):
                read(path)
    # And they are not replaced.
    with pytest.raises(UserError, match="pipe is not a regular file"):
        files.write_json(str(folder / "pipe"), {})
    assert (folder / "pipe").is_fifo() and sorted(os.listdir(folder)) == ["file", "pipe"]


def test_output_folders_are_made_and_must_be_writable(folder):
    for name in ("", "new", "new/deep/er"):
        files.make_writable_folder(str(folder / name), "--output_dir")
        assert (folder / name).is_dir()
    for path in (folder / "file", folder / "file/below", "/proc/self"):
        with pytest.raises(UserError, match=f"^--output_dir {path} cannot be written: "):
            files.make_writable_folder(str(path), "--output_dir")
    assert sorted(os.listdir(folder)) == ["file", "new"]
    assert os.listdir(folder / "new") == ["deep"] and not os.listdir(folder / "new/deep/er")


def test_a_folder_appears_when_it_is_whole(folder):
    with files.temporary_folder(str(folder / "new")) as name:
        with open(os.path.join(name, "file"), "w") as file:
            file.write("whole")
        assert not (folder / "new").exists()
    assert (folder / "new" / "file").read_text() == "whole"
    assert os.stat(folder / "new").st_mode == os.stat(folder).st_mode
    with pytest.raises(KeyError), files.temporary_folder(str(folder / "other")):
        raise KeyError
    faults = {"new": "already exists", "file/below": "cannot be written"}
    for name, fault in {**faults, "late": "cannot be written: another process has made it"}.items():
        with pytest.raises(UserError, match=fault), files.temporary_folder(str(folder / name)):
            write(folder / name / "file", "another process")
    assert sorted(path.name for path in folder.iterdir()) == ["file", "late", "new"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not JSON: Expecting value: line 1 column 1"),
        ("[1,\n2 3]", "is not JSON: Expecting ',' delimiter: line 2 column 3"),
        (b'["\xff"]', "is not UTF-8: byte 2"),
        ("9" * 9999, "is not JSON: Exceeds the limit"),
        *((mark * 100_000, "cannot be parsed: its JSON is nested too") for mark in ("[", '{"a":')),
    ],
)
def test_a_fault_of_json_is_one_line_that_names_the_file(tmp_path, content, message):
    path = tmp_path / "file.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError) as caught:
        files.read_json(str(path), "the file")
    assert str(caught.value).startswith(f"the file {path} {message}")
    assert "\n" not in str(caught.value)


def test_a_byte_order_mark_is_skipped(folder):
    for encoding in ("utf-8", "utf-8-sig"):
        (folder / "file").write_text('{"ä": [1], "ä": 2}', encoding)
        path = str(folder / "file")
        assert files.read_json(path, "file", list) == [("ä", [1]), ("ä", 2)]
    with pytest.raises(UserError, match="^no objects$"):
        files.read_json(path, "file", mock.Mock(side_effect=UserError("no objects")))


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_printed_json_replaces_values_that_json_lacks(monkeypatch, encoding):
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, encoding))
    files.print_json(
        {"é\udceb": [math.nan, -math.inf, 0.5, 3, True, None, ("half \ud83d", "\ud83d\ude00")]}
    )
    text = output.getvalue().decode(encoding)
    assert ("é" in text) == (encoding == "utf-8")
    replaced = {"é\ufffd": [None, None, 0.5, 3, True, None, ["half \ufffd", "\U0001f600"]]}
    assert json.loads(text) == replaced
