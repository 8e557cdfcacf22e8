"""Files derived from others: reused, rebuilt, or refused as foreign."""

import errno
import hashlib
import json
import os

import pytest
import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.distributed import launcher
from albert.records import cached_file
from albert.records.cached_file import CachedFile, Snapshot
from tests.helpers.files import contents

SOURCE = {"input_sha256": "abc", "length": 64, "lower": True}
ALL = {"main", "more", "main.json"}
FULL = "No space left on device"


class Folder:
    """A folder with a derived file `main` and its companion `more`."""

    def __init__(self, folder, companion="more"):
        self.folder, self.header = folder, folder / "main.json"
        self.main, self.more = folder / "main", folder / companion

    def derived(self, **changes):
        return CachedFile(str(self.main), {**SOURCE, **changes}, [str(self.more)])

    def build(self, content="1", **changes):
        with self.derived(**changes).building() as (names, summary):
            for name, text in zip(names, ("main" + content, "more" + content), strict=True):
                with open(name, "w") as file:
                    file.write(text)
            summary["count"] = 3
        return {"count": 3}

    def edit(self, **changes):
        """Changes the header and its hash; None removes a key."""
        header = {**json.loads(self.header.read_text()), **changes}
        header = {k: v for k, v in header.items() if v is not None and k != "header_sha256"}
        digest = hashlib.sha256(json.dumps(header).encode()).hexdigest()
        self.header.write_text(json.dumps({**header, "header_sha256": digest}))


@pytest.fixture
def files(tmp_path):
    return Folder(tmp_path)


class TestBuilding:
    def test_files_may_move_and_companions_may_be_elsewhere(self, files, monkeypatch):
        files.build()
        moved = Folder(files.folder / "moved", "../more")
        moved.folder.mkdir()
        for path in (files.main, files.more, files.header):
            path.rename(moved.folder / path.name)
        assert Folder(moved.folder).derived().reusable() == {"count": 3}
        moved.build()
        assert moved.derived().reusable() == {"count": 3}
        files.more.write_text("changed")
        assert moved.derived().reusable() is None and not moved.derived().is_foreign()
        monkeypatch.chdir(moved.folder)
        moved.build()
        assert CachedFile("main", SOURCE, ["../more"]).reusable() == {"count": 3}

    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (KeyError("x"), "^'x'$"),
            (OSError(errno.ENOSPC, FULL), f"/main cannot be written: {FULL}$"),
            (tf.errors.InternalError(None, None, f"{FULL}\nmore"), f"/main cannot be .*: {FULL}$"),
        ],
    )
    def test_an_error_leaves_everything_as_it_was(self, files, error, message):
        files.build()
        before = contents(files.folder)
        building = files.derived(length=1).building()
        with pytest.raises((KeyError, UserError), match=message), building as (names, _):
            with open(names[0], "w") as file:
                file.write("half")
            raise error
        assert contents(files.folder) == before

    @pytest.mark.parametrize("broken", [1, 2, 3])
    @pytest.mark.parametrize("old", [True, False], ids=["old files", "no files"])
    def test_a_crash_while_renaming_causes_a_rebuild(self, files, monkeypatch, broken, old):
        if old:
            files.build("old")
        steps = [os.replace] * (broken - 1)
        with monkeypatch.context() as patch, pytest.raises(IndexError):
            patch.setattr(os, "replace", lambda *names: steps.pop()(*names))
            files.build("new", length=128)
        derived = files.derived(length=128)
        assert derived.reusable() is None and not derived.is_foreign()
        files.build("new", length=128)
        assert derived.reusable() == {"count": 3} and contents(files.folder).keys() == ALL

    def test_leftovers_of_a_killed_builder_are_removed(self, files):
        """Those of another file, such as `main.tf_record`, stay."""
        others = {".main.tf_record.abcdefgh", ".main.notes", ".main.Back-1"}
        for name in (*others, *(f".{name}.abc_def0" for name in ALL)):
            (files.folder / name).write_text("half")
        files.build()
        assert contents(files.folder).keys() == ALL | others


def made_anew(files, log, reason, **changes):
    """Fails unless the files would be rebuilt for this reason, and stay untouched until then."""
    before, derived = contents(files.folder), files.derived(**changes)
    assert derived.state(None) == f"will be made again: {reason}"
    assert contents(files.folder) == before
    log()
    derived.build_once(lambda: files.build("new", **changes), None)
    assert log() == [f"Making {files.main} again: {reason}"]
    assert derived.reusable() == {"count": 3}


def test_another_source_or_version_causes_a_rebuild(files, log):
    for key, value in (("length", 32), ("stride", 1)):
        files.build()
        reason = f"it was made with other values of {key} (was {SOURCE.get(key)}, is {value})"
        made_anew(files, log, reason, **{key: value})
    for version in (0, 2, "1"):
        files.build()
        files.edit(version=version)
        made_anew(files, log, f"its header has version {version}, and this program writes 1")
    # A value that is no longer one does not matter.
    files.build()
    files.edit(source={**SOURCE, "earlier": 1})
    assert files.derived().reusable() == {"count": 3}
    # A later version only promises its name and its number.
    files.header.write_text(json.dumps({"format": "albert-derived-file", "version": 2}))
    made_anew(files, log, "its header has version 2, and this program writes 1")


@pytest.mark.parametrize("which", ["main", "more"])
def test_changed_content_causes_a_rebuild(files, log, which):
    for content in (None, "", "Main1", "main1" if which == "more" else "more1"):
        files.build()
        path = getattr(files, which)
        path.unlink()
        if content is not None:
            path.write_text(content)
        missing, other = f"{path} is missing", f"the content of {path} has changed"
        made_anew(files, log, missing if content is None else other)


def test_any_changed_byte_of_a_header_causes_a_rebuild(files, log):
    files.build()
    content = files.header.read_bytes()
    reasons = {f"its header {files.header} is damaged"}
    reasons |= {f"its header has version {v}, and this program writes 1" for v in (0, 3, 5, 9)}
    for position, byte in enumerate(content):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 5
        files.header.write_bytes(damaged)
        log()
        derived = files.derived()
        # White space may become other white space.
        if derived.reusable() is None or not bytes([byte, damaged[position]]).isspace():
            (line,) = log()
            assert line.removeprefix(f"Making {files.main} again: ") in reasons
            assert not derived.is_foreign()


class TestMadeOnce:
    def test_a_built_file_is_read_without_the_lock(self, files, monkeypatch):
        made = files.derived().build_once(files.build, None)
        assert made[0] == {"count": 3}
        monkeypatch.delattr(cached_file, "exclusive")
        assert files.derived().build_once(None, None) == made

    @pytest.mark.parametrize("is_first", [True, False])
    def test_rank_0_builds_first(self, files, monkeypatch, is_first):
        """Its log is shown; the others wait a moment before they build their first file."""
        events = []
        launcher.wait_for_rank_0.cache_clear()
        monkeypatch.setattr(launcher, "is_first", lambda: is_first)
        monkeypatch.setattr(launcher.time, "sleep", lambda seconds: events.append("wait"))
        # The second time, the existing file is taken at once.
        for _ in range(2):
            files.derived().build_once(lambda: events.append("build") or files.build(), None)
            assert events == (["build"] if is_first else ["wait", "build"])
        files.main.unlink()
        files.derived().build_once(lambda: events.append("build") or files.build(), None)
        assert events[-2:] == ["build", "build"]

    def test_an_overtaken_builder_leaves_the_others_files(self, files):
        """During a pause, another process has taken the lock and removed the unfinished file."""
        message = "main cannot be written: No such file or directory"
        with pytest.raises(UserError, match=message), files.derived().building() as (names, _):
            for name in names:
                open(name, "w").close()
            files.build()
        assert files.derived().reusable() == {"count": 3}


@pytest.mark.parametrize(
    "change", [Folder.build, lambda p: p.main.touch(), lambda p: p.main.unlink()]
)
def test_a_snapshot_detects_replaced_files(files, change):
    files.build()
    snapshot = Snapshot.of([str(files.main), str(files.more), str(files.folder / "none")])
    (files.folder / "none").write_text("is not looked at")
    snapshot.check()
    change(files)
    with pytest.raises(UserError, match=f"^{files.main} was replaced while this job ran; give"):
        snapshot.check()


class TestForeign:
    @pytest.mark.parametrize(
        "header", [None, b"", b"{", b"[]", b'{"files": {"main": 1}}', b'{"format": 1}', b"\xff"]
    )
    def test_a_file_without_a_header_of_ours_is_foreign(self, files, header, log, monkeypatch):
        """It is checked without a lock, because its folder may not be writable."""
        files.main.write_text("notes")
        if header is not None:
            files.header.write_bytes(header)
        assert files.derived().is_foreign()
        assert files.derived().state(dict) == "exists, not written by this program"
        with pytest.raises(ZeroDivisionError):
            files.derived().state(lambda: 1 / 0)
        monkeypatch.delattr(cached_file, "exclusive")
        summary, snapshot = files.derived().build_once(None, lambda: {"count": 1})
        assert summary == {"count": 1} and log() == []
        snapshot.check()
        # Replaced while it is checked.
        _, snapshot = files.derived().build_once(None, lambda: files.main.write_text("notes!"))
        with pytest.raises(UserError):
            snapshot.check()

    @pytest.mark.parametrize(
        ("name", "make", "message"),
        [
            # Occurs when features of `train.json` are called `train`.
            ("header", lambda path: path.write_text('{"data": []}'), "was not written .*{main}; "),
            ("more", lambda path: path.write_text("notes"), "was not written by this .*{main}; "),
            ("main", lambda path: path.mkdir(), "is not a file"),
            ("more", lambda path: path.symlink_to("none"), "is not a file"),
        ],
    )
    def test_files_in_the_way_are_named_and_kept(self, files, name, make, message):
        path = getattr(files, name)
        make(path)
        before = contents(files.folder)
        message = f"^{path} .*{message.format(main=files.main)}.*give another name"
        with pytest.raises(UserError, match=message):
            files.derived().state(None)
        with pytest.raises(UserError, match=message):
            files.derived().build_once(files.build, None)
        assert contents(files.folder) == before
