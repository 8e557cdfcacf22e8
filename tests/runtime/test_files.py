"""Files that are whole or absent."""

import errno
import hashlib
import json
import os
import random
import shutil
import stat

import pytest

from runtime.errors import UserError
from runtime.files import (
    check_readable,
    content_of,
    copy_atomically,
    make_writable_folder,
    open_atomically,
    read_bytes,
    sha256_of,
    temporary_folder,
    temporary_name,
    write_json,
)


class Broken(Exception):
    pass


@pytest.fixture
def folder(tmp_path):
    """A folder with one file, `file`."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("old")
    return tmp_path / "folder"


def contents(folder):
    return {name: (folder / name).read_bytes() for name in os.listdir(folder)}


def write_with_name(path, content):
    with temporary_name(path) as name, open(name, "w") as file:
        file.write(content)


def write_with_open(path, content):
    with open_atomically(path) as file:
        file.write(content)


@pytest.fixture(params=[write_with_name, write_with_open], ids=["temporary_name", "open"])
def write(request):
    return request.param


class TestWriting:
    @pytest.mark.parametrize("name", ["file", "new"])
    def test_new_content(self, folder, write, name):
        write(str(folder / name), "new")
        assert contents(folder) == {"file": b"old", name: b"new"}

    @pytest.mark.parametrize("error", [Broken(), KeyboardInterrupt(), OSError("full")], ids=type)
    def test_an_error_leaves_everything_as_it_was(self, folder, error):
        def broken(path):
            with open_atomically(path) as file:
                file.write("half")
                raise error

        for name in ("file", "new"):
            with pytest.raises(type(error)):
                broken(str(folder / name))
        assert contents(folder) == {"file": b"old"}

    def test_disk_full(self, folder, write, monkeypatch):
        """Where the content is written, or where it is flushed."""
        with pytest.raises(UserError) as caught, open_atomically(str(folder / "new")):
            raise OSError(errno.ENOSPC, "No space left on device")
        message = f"{folder / 'new'} cannot be written: No space left on device"
        assert str(caught.value) == message

        def full(descriptor):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(UserError) as caught:
            write(str(folder / "new"), "x")
        assert str(caught.value) == message
        assert contents(folder) == {"file": b"old"}

    def test_no_folder(self, folder, write):
        path = folder / "file" / "below"
        with pytest.raises(UserError, match="cannot be written: ") as caught:
            write(str(path), "x")
        assert str(caught.value).startswith(f"{path} cannot be written: ")
        assert contents(folder) == {"file": b"old"}

    def test_a_name_that_is_too_long(self, folder, write):
        path = folder / ("n" * 300)
        with pytest.raises(UserError, match="cannot be written: File name too long"):
            write(str(path), "x")

    def test_an_error_about_another_file_is_not_about_this_one(self, folder):
        with pytest.raises(FileNotFoundError), open_atomically(str(folder / "new")):
            (folder / "none").read_text()

    def test_an_error_after_the_name_has_gone(self, folder):
        with pytest.raises(Broken), temporary_name(str(folder / "file")) as name:
            os.remove(name)
            raise Broken
        assert contents(folder) == {"file": b"old"}

    def test_old_content_stays_until_the_end(self, folder):
        path = folder / "file"
        with open_atomically(str(path)) as file:
            file.write("new")
            file.flush()
            assert path.read_text() == "old"
        assert path.read_text() == "new"

    def test_the_temporary_file_is_beside_and_hidden(self, folder):
        """So that renaming it never copies, and no pattern for results finds it."""
        with temporary_name(str(folder / "file")) as name:
            assert os.path.dirname(name) == str(folder)
            assert os.path.basename(name).startswith(".")

    def test_many_at_once_do_not_meet(self, folder):
        path = str(folder / "file")
        with open_atomically(path) as one, open_atomically(path) as other:
            one.write("one")
            other.write("other")
        assert contents(folder) == {"file": b"one"}  # the first to begin is the last to end

    @pytest.mark.parametrize("mask", [0o022, 0o077, 0o002, 0o000])
    def test_mode_follows_the_umask(self, folder, write, mask):
        before = os.umask(mask)
        try:
            write(str(folder / "new"), "x")
            assert os.umask(mask) == mask
        finally:
            os.umask(before)
        assert stat.S_IMODE((folder / "new").stat().st_mode) == 0o666 & ~mask

    def test_content_is_on_disk_before_it_has_its_name(self, folder, write, monkeypatch):
        events = []
        fsync, replace = os.fsync, os.replace

        def watch_fsync(handle):
            info = os.fstat(handle)
            events.append(("fsync", info.st_ino, info.st_size))
            fsync(handle)

        def watch_replace(source, target):
            events.append(("replace", os.stat(source).st_ino, os.stat(source).st_size))
            replace(source, target)

        monkeypatch.setattr(os, "fsync", watch_fsync)
        monkeypatch.setattr(os, "replace", watch_replace)
        write(str(folder / "file"), "new")
        inode = (folder / "file").stat().st_ino
        assert events[:2] == [("fsync", inode, 3), ("replace", inode, 3)]

    def test_folders_are_made(self, folder):
        write_json(str(folder / "a" / "b" / "c.json"), 1)
        assert (folder / "a" / "b" / "c.json").read_text() == "1\n"

    def test_relative_path(self, folder, monkeypatch):
        monkeypatch.chdir(folder)
        write_json("here.json", [])
        assert sorted(contents(folder)) == ["file", "here.json"]

    def test_text_is_utf8_and_bytes_are_bytes(self, folder):
        with open_atomically(str(folder / "text")) as file:
            file.write("é中")
        with open_atomically(str(folder / "bytes"), "wb") as file:
            file.write(b"\xff\x00")
        assert (folder / "text").read_bytes() == "é中".encode()
        assert (folder / "bytes").read_bytes() == b"\xff\x00"

    def test_json(self, folder):
        value = {"b": [1, 2.5, None], "a": "é\ud800"}
        write_json(str(folder / "j"), value, indent=4)
        text = (folder / "j").read_text(encoding="utf-8")
        assert json.loads(text) == value and list(json.loads(text)) == ["b", "a"]
        assert text.startswith('{\n    "b"') and text.endswith("}\n")

    def test_json_that_cannot_be_written(self, folder):
        with pytest.raises(TypeError):
            write_json(str(folder / "file"), {"x": object()})
        assert contents(folder) == {"file": b"old"}


class TestCopy:
    @pytest.fixture(params=[True, False], ids=["link", "no links"])
    def links(self, request, monkeypatch):
        """With and without a file system that has hard links."""

        def refuse(*args, **kwargs):
            raise OSError(errno.EPERM, "no links here")

        if not request.param:
            monkeypatch.setattr(os, "link", refuse)
        return request.param

    @pytest.mark.parametrize("target", ["new", "other"])
    def test_content(self, folder, links, target):
        (folder / "other").write_text("in the way")
        copy_atomically(str(folder / "file"), str(folder / target))
        expected = {"file": b"old", "other": b"in the way", target: b"old"}
        assert contents(folder) == expected

    def test_space_is_saved_where_it_can_be(self, folder, links):
        copy_atomically(str(folder / "file"), str(folder / "new"))
        same = (folder / "file").stat().st_ino == (folder / "new").stat().st_ino
        assert same == links

    def test_a_new_version_of_the_source_leaves_the_copy(self, folder, links):
        copy_atomically(str(folder / "file"), str(folder / "copy"))
        write_with_open(str(folder / "file"), "newer")
        assert contents(folder) == {"file": b"newer", "copy": b"old"}

    @pytest.mark.parametrize("mode", [0o400, 0o444, 0o600])
    def test_the_source_keeps_its_mode(self, folder, links, mode):
        """It may be a pretrained checkpoint that somebody protects from being written."""
        (folder / "file").chmod(mode)
        copy_atomically(str(folder / "file"), str(folder / "copy"))
        assert stat.S_IMODE((folder / "file").stat().st_mode) == mode

    def test_a_relative_symbolic_link(self, folder, links, tmp_path_factory):
        """As in the caches of model hubs; it is what it points to that is copied."""
        (folder / "link").symlink_to("file")
        target = tmp_path_factory.mktemp("elsewhere") / "copy"
        copy_atomically(str(folder / "link"), str(target))
        assert target.read_bytes() == b"old" and not target.is_symlink()

    def test_disk_full(self, folder, monkeypatch):
        def full(source, target):
            raise OSError(errno.ENOSPC, "No space left on device", source, None, target)

        monkeypatch.setattr(os, "link", full)
        monkeypatch.setattr(shutil, "copyfile", full)
        with pytest.raises(UserError) as caught:
            copy_atomically(str(folder / "file"), str(folder / "new"))
        assert str(caught.value) == f"{folder / 'new'} cannot be written: No space left on device"
        assert contents(folder) == {"file": b"old"}

    def test_no_source(self, folder, links):
        with pytest.raises(FileNotFoundError):
            copy_atomically(str(folder / "none"), str(folder / "file"))
        assert contents(folder) == {"file": b"old"}


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_000_000])
def test_sha256(tmp_path, size):
    content = random.Random(size).randbytes(size)
    (tmp_path / "f").write_bytes(content)
    assert sha256_of(str(tmp_path / "f")) == hashlib.sha256(content).hexdigest()


class TestReadable:
    def test_a_file(self, folder):
        check_readable(str(folder / "file"), "--some_flag")

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("none", "cannot be read: No such file or directory"),
            ("", "is a folder, not a file"),
            ("file/below", "cannot be read: Not a directory"),
        ],
    )
    def test_anything_else(self, folder, name, message):
        path = os.path.join(folder, name)
        with pytest.raises(UserError) as caught:
            check_readable(path, "--some_flag")
        assert str(caught.value) == f"--some_flag {path} {message}"

    def test_a_pipe_is_not_waited_for(self, folder):
        pipe = str(folder / "pipe")
        os.mkfifo(pipe)
        for path in (pipe, os.devnull):
            with pytest.raises(UserError, match=f"^--some_flag {path} is not a regular file$"):
                check_readable(path, "--some_flag")
            for read in (content_of, read_bytes):
                with pytest.raises(UserError, match=f"^{path} is not a regular file$"):
                    read(path)


class TestWritableFolder:
    @pytest.mark.parametrize("name", ["", "new", "new/deep/er"])
    def test_is_made_and_stays_empty(self, folder, name):
        path = folder / name
        make_writable_folder(str(path), "--output_dir")
        assert path.is_dir()
        assert contents(path) == ({} if name else {"file": b"old"})

    @pytest.mark.parametrize("name", ["file", "file/below"])
    def test_that_cannot_be_made(self, folder, name):
        path = os.path.join(folder, name)
        with pytest.raises(UserError) as caught:
            make_writable_folder(path, "--output_dir")
        assert str(caught.value).startswith(f"--output_dir {path} cannot be written: ")
        assert contents(folder) == {"file": b"old"}

    def test_that_cannot_be_written(self):
        with pytest.raises(UserError, match="--export_dir /proc/self cannot be written"):
            make_writable_folder("/proc/self", "--export_dir")


def test_a_folder_is_there_when_it_is_whole(folder):
    with temporary_folder(str(folder / "new")) as name:
        with open(os.path.join(name, "file"), "w") as file:
            file.write("whole")
        assert not (folder / "new").exists()
    assert (folder / "new" / "file").read_text() == "whole"
    assert os.stat(folder / "new").st_mode == os.stat(folder).st_mode
    with pytest.raises(Broken), temporary_folder(str(folder / "other")):
        raise Broken
    for name, fault in (("new", "is there already"), ("file/below", "cannot be written")):
        with pytest.raises(UserError, match=fault), temporary_folder(str(folder / name)):
            pass
    assert sorted(path.name for path in folder.iterdir()) == ["file", "new"]


def test_a_pipe_is_not_replaced(tmp_path):
    """Nor a device, which a privileged user could replace."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="pipe is not a regular file"):
        write_json(str(tmp_path / "pipe"), {})
    assert (tmp_path / "pipe").is_fifo() and os.listdir(tmp_path) == ["pipe"]
