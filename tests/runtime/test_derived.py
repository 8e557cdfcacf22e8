"""Files derived from others: reused, made anew, or not ours."""

import contextlib
import errno
import json
import logging
import os

import pytest
import tensorflow.compat.v1 as tf

from runtime.derived import DerivedFile
from runtime.errors import UserError

SOURCE = {"input_sha256": "abc", "length": 64, "lower": True}


@pytest.fixture
def log(caplog, monkeypatch):
    """The log lines so far; clears them."""
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    caplog.set_level(logging.INFO, tf.get_logger().name)

    def lines():
        messages = [r.getMessage() for r in caplog.records]
        caplog.clear()
        return messages

    return lines


class Place:
    """A folder with a derived file `main` and its companion `more`."""

    def __init__(self, folder):
        self.folder = folder
        self.main, self.more = folder / "main", folder / "more"
        self.header = folder / "main.json"

    def derived(self, **changes):
        return DerivedFile(str(self.main), {**SOURCE, **changes}, [str(self.more)])

    def build(self, content="1", **changes):
        with self.derived(**changes).building() as (names, facts):
            for name, text in zip(names, ("main" + content, "more" + content), strict=True):
                with open(name, "w") as file:
                    file.write(text)
            facts["count"] = 3

    def listing(self):
        return {f.name: f.read_bytes() for f in self.folder.iterdir()}


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


class TestBuilding:
    def test_files_and_header(self, place):
        place.build()
        assert place.listing().keys() == {"main", "more", "main.json"}
        assert place.main.read_text() == "main1" and place.more.read_text() == "more1"
        header = json.loads(place.header.read_text())
        assert header["source"] == SOURCE and header["facts"] == {"count": 3}

    def test_facts_are_given_back(self, place, log):
        place.build()
        assert place.derived().reusable() == {"count": 3}
        assert log() == [f"Reusing {place.main} and {place.more}"]

    def test_without_companions(self, place):
        derived = DerivedFile(str(place.main), SOURCE)
        with derived.building() as (names, facts):
            assert len(names) == 1 and facts == {}
            open(names[0], "w").close()
        assert derived.reusable() == {}

    def test_nothing_is_there_at_first(self, place, log):
        assert place.derived().reusable() is None and not place.derived().is_foreign()
        assert log() == []

    @pytest.mark.parametrize("old", [True, False])
    @pytest.mark.parametrize("error", [KeyError("x"), KeyboardInterrupt()], ids=type)
    def test_an_error_leaves_everything_as_it_was(self, place, old, error):
        if old:
            place.build()
        before = place.listing()
        with pytest.raises(type(error)), place.derived(length=1).building() as (names, _):
            with open(names[0], "w") as file:
                file.write("half")
            raise error
        assert place.listing() == before

    @pytest.mark.parametrize(
        "error",
        [
            OSError(errno.ENOSPC, "No space left on device"),
            tf.errors.ResourceExhaustedError(None, None, "No space left on device\nmore"),
            tf.errors.InternalError(None, None, "No space left on device"),
        ],
        ids=type,
    )
    def test_disk_full(self, place, error):
        with pytest.raises(UserError) as caught, place.derived().building():
            raise error
        assert str(caught.value) == f"{place.main} cannot be written: No space left on device"
        assert place.listing() == {}

    @pytest.mark.parametrize("broken", [1, 2, 3])
    @pytest.mark.parametrize("old", [True, False], ids=["old files", "no files"])
    def test_a_crash_while_names_are_given(self, place, monkeypatch, log, broken, old):
        """Wherever it stops, the next run sees that the files are not what it wants."""
        if old:
            place.build("old")
        stop_at_replace(monkeypatch, broken)
        with pytest.raises(Crash):
            place.build("new", length=128)
        monkeypatch.undo()
        assert place.derived(length=128).reusable() is None
        assert not place.derived(length=128).is_foreign()
        place.build("new", length=128)
        assert place.derived(length=128).reusable() == {"count": 3}
        assert place.listing().keys() == {"main", "more", "main.json"}

    def test_a_crash_after_the_last_name(self, place, monkeypatch):
        stop_at_replace(monkeypatch, 4)
        place.build("new")
        assert place.derived().reusable() == {"count": 3}


class Crash(BaseException):
    pass


def stop_at_replace(monkeypatch, number):
    """The process ends instead of renaming for the given time, counted from 1."""
    replace, calls = os.replace, []

    def stopping(source, target):
        calls.append(target)
        if len(calls) == number:
            raise Crash
        replace(source, target)

    monkeypatch.setattr(os, "replace", stopping)


def edit_header(place, **changes):
    header = json.loads(place.header.read_text())
    place.header.write_text(json.dumps({**header, **changes}))


class TestReasons:
    def why(self, place, log, **changes):
        """The reason that the log gives, which must leave the files and be no cause for alarm."""
        before = place.listing()
        log()
        assert place.derived(**changes).reusable() is None
        assert not place.derived(**changes).is_foreign()
        assert place.listing() == before
        (line,) = log()
        start = f"{place.main} is made anew: "
        assert line.startswith(start)
        return line[len(start) :]

    @pytest.mark.parametrize(
        ("key", "value"), [("length", 32), ("lower", False), ("input_sha256", "abd")]
    )
    def test_source(self, place, log, key, value):
        place.build()
        reason = self.why(place, log, **{key: value})
        assert reason == f"it was made with {key} {SOURCE[key]}, now it is {value}"

    def test_a_key_that_the_header_lacks(self, place, log):
        place.build()
        assert self.why(place, log, stride=1) == "it was made with stride None, now it is 1"

    @pytest.mark.parametrize("which", ["main", "more"])
    def test_missing(self, place, log, which):
        place.build()
        path = getattr(place, which)
        path.unlink()
        assert self.why(place, log) == f"{path} is missing"

    @pytest.mark.parametrize("which", ["main", "more"])
    @pytest.mark.parametrize("content", ["", "main", "main2", "Main1"])
    def test_changed(self, place, log, which, content):
        place.build()
        path = getattr(place, which)
        path.write_text(content)
        assert self.why(place, log) == f"the content of {path} is not what was written"

    def test_exchanged(self, place, log):
        place.build()
        main, more = place.main.read_text(), place.more.read_text()
        place.main.write_text(more)
        place.more.write_text(main)
        assert "is not what was written" in self.why(place, log)

    @pytest.mark.parametrize("version", [0, 2, "1", None])
    def test_version(self, place, log, version):
        place.build()
        edit_header(place, version=version)
        reason = self.why(place, log)
        assert reason == f"its header is version {version}, this program writes 1"

    def test_a_later_version_may_look_quite_different(self, place, log):
        """Of it nothing but its name and its number can be relied on."""
        place.build()
        place.header.write_text(json.dumps({"format": "albert-derived-file", "version": 2}))
        assert place.derived().reusable() is None
        assert log() == [
            f"{place.main} is made anew: its header is version 2, this program writes 1"
        ]
        with contextlib.suppress(UserError):  # whose the files are may be left open
            place.derived().is_foreign()


class TestForeign:
    def test_something_else_at_the_headers_name(self, place):
        """As when features of `train.json` are called `train`."""
        place.header.write_text('{"data": []}')
        with pytest.raises(UserError, match="is no header of"):
            place.derived().is_foreign()
        assert place.header.read_text() == '{"data": []}'

    def test_what_a_killed_builder_left_is_removed(self, place):
        leftover = place.main.with_name(f".{place.main.name}.abcdefgh")
        leftover.write_text("half")
        place.build()
        assert not leftover.exists() and place.main.exists()

    @pytest.mark.parametrize(
        "header",
        [None, b"", b"{", b"[]", b"null", b'{"files": {"main": 1}}', b'{"format": 1}', b"\xff"],
    )
    def test_without_a_header_of_ours(self, place, header, log):
        place.main.write_text("notes")
        if header is not None:
            place.header.write_bytes(header)
        assert place.derived().reusable() is None
        assert place.derived().is_foreign()
        assert log() == []
        assert place.main.read_text() == "notes"

    def test_companion(self, place):
        place.more.write_text("notes")
        with pytest.raises(UserError) as caught:
            place.derived().is_foreign()
        message = str(caught.value)
        assert message.startswith(f"{place.more} exists and was not written by this program for")
        assert str(place.main) in message and "neither read nor replaced" in message
        assert place.listing() == {"more": b"notes"}

    def test_companion_that_another_file_has(self, place):
        """`more` belongs to `main` and is not to be replaced for `main2`."""
        place.build()
        other = DerivedFile(str(place.folder / "main2"), SOURCE, [str(place.more)])
        assert other.reusable() is None
        with pytest.raises(UserError, match="was not written by this program for"):
            other.is_foreign()

    @pytest.mark.parametrize("which", ["main", "more"])
    @pytest.mark.parametrize("kind", ["folder", "dangling link"])
    def test_no_file(self, place, which, kind):
        path = getattr(place, which)
        if kind == "folder":
            path.mkdir()
        else:
            path.symlink_to(place.folder / "nowhere")
        with pytest.raises(UserError, match=f"{path} is not a file"):
            place.derived().is_foreign()

    def test_a_header_that_is_a_folder(self, place):
        place.header.mkdir()
        assert place.derived().reusable() is None
        with pytest.raises(UserError, match="cannot be written: Is a directory"):
            place.build()
        assert os.listdir(place.folder) == ["main.json"]

    def test_ours_in_a_folder_that_was_moved(self, place, log):
        place.build()
        moved = place.folder / "moved"
        moved.mkdir()
        for path in (place.main, place.more, place.header):
            path.rename(moved / path.name)
        assert Place(moved).derived().reusable() == {"count": 3}

    def test_companion_in_another_folder(self, place):
        place.more = place.folder / "sub" / "more"
        place.build()
        assert place.derived().reusable() == {"count": 3}
        place.more.write_text("changed")
        assert place.derived().reusable() is None and not place.derived().is_foreign()
