"""Files derived from others: reused, made anew, or not ours."""

import contextlib
import errno
import json
import logging
import os

import pytest
import tensorflow.compat.v1 as tf

from runtime import files, launcher
from runtime.data import cached_file
from runtime.data.cached_file import CachedFile, Snapshot
from runtime.errors import UserError
from runtime.files import remove_temporary_files

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
        return CachedFile(str(self.main), {**SOURCE, **changes}, [str(self.more)], ["count"])

    def build(self, content="1", **changes):
        with self.derived(**changes).building() as (names, summary):
            for name, text in zip(names, ("main" + content, "more" + content), strict=True):
                with open(name, "w") as file:
                    file.write(text)
            summary["count"] = 3

    def made_once(self, build=None, check=None, **changes):
        """What `made_once` returns; `build` and `check` are what it may call."""
        return self.derived(**changes).made_once(build, check)

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

    def test_the_summary_is_given_back(self, place, log):
        place.build()
        assert place.derived().reusable() == {"count": 3}
        assert log() == [f"Reusing {place.main} and {place.more}"]

    def test_without_companions(self, place):
        derived = CachedFile(str(place.main), SOURCE)
        with derived.building() as (names, summary):
            assert len(names) == 1 and summary == {}
            open(names[0], "w").close()
        assert derived.reusable() == {}

    def test_nothing_is_there_at_first(self, place, log):
        assert place.derived().reusable() is None and not place.derived().made_elsewhere()
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
            tf.errors.OutOfRangeError(None, None, "No space left on device"),
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
        assert not place.derived(length=128).made_elsewhere()
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
    """Changes a header; one of None takes its part out."""
    header = {**json.loads(place.header.read_text()), **changes}
    place.header.write_text(json.dumps({k: v for k, v in header.items() if v is not None}))


def make_header_an_earlier_one(place, **changes):
    """They had no hash of themselves."""
    edit_header(place, header_sha256=None, **changes)


class TestReasons:
    def why(self, place, log, **changes):
        """The reason that the log gives, which must leave the files and be no cause for alarm."""
        before = place.listing()
        log()
        assert place.derived(**changes).reusable() is None
        assert not place.derived(**changes).made_elsewhere()
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

    @pytest.mark.parametrize("version", [0, 2, "1"])
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
            place.derived().made_elsewhere()


class TestDamagedHeader:
    """It is a reason to make the files anew, and none to take them for somebody else's."""

    def check(self, place, log):
        before = place.listing()
        reason = f"its header {place.header} is damaged"
        log()
        assert place.derived().reusable() is None
        assert log() == [f"{place.main} is made anew: {reason}"]
        assert place.derived().state(None) == f"to be made anew: {reason}"
        assert not place.derived().made_elsewhere()
        assert place.listing() == before
        place.build("new")
        assert place.derived().reusable() == {"count": 3}

    @pytest.mark.parametrize("files", ["there", "missing"])
    @pytest.mark.parametrize("length", [len('{\n  "format": "albert-derived-file"'), 100, -3])
    def test_truncated(self, place, log, length, files):
        place.build()
        place.header.write_bytes(place.header.read_bytes()[:length])
        if files == "missing":
            place.main.unlink()
        self.check(place, log)

    @pytest.mark.parametrize("damage", [b"\0" * 20, b"\xff", b"[" * 100_000])
    def test_overwritten(self, place, log, damage):
        place.build()
        content = place.header.read_bytes()
        place.header.write_bytes(content[:50] + damage + content[50 + len(damage) :])
        self.check(place, log)

    def test_any_byte(self, place, log):
        """Of a name, of a number or of the hash itself; the files are made anew, not taken over."""
        place.build()
        content = place.header.read_bytes()
        reasons = {f"its header {place.header} is damaged"}
        reasons |= {f"its header is version {v}, this program writes 1" for v in (0, 3, 5, 9)}
        for position in range(len(content)):
            damaged = bytearray(content)
            damaged[position] ^= 1 << position % 5
            place.header.write_bytes(damaged)
            log()
            derived = place.derived()
            if derived.reusable() is None:
                (line,) = log()
                assert line.removeprefix(f"{place.main} is made anew: ") in reasons
                assert not derived.made_elsewhere()
            else:
                # White space became other white space.
                assert chr(content[position]).isspace() and chr(damaged[position]).isspace()

    @pytest.mark.parametrize("key", ["version", "source", "facts", "files"])
    @pytest.mark.parametrize("make_damage", [edit_header, make_header_an_earlier_one])
    def test_lacks_a_part(self, place, log, key, make_damage):
        place.build()
        make_damage(place, **{key: None})
        self.check(place, log)

    @pytest.mark.parametrize("key", ["source", "facts", "files"])
    @pytest.mark.parametrize("value", [[], "text", 1])
    @pytest.mark.parametrize("make_damage", [edit_header, make_header_an_earlier_one])
    def test_a_part_of_a_wrong_type(self, place, log, key, value, make_damage):
        place.build()
        make_damage(place, **{key: value})
        self.check(place, log)

    @pytest.mark.parametrize("facts", [{}, {"coumt": 3}, {"count": "3"}, {"count": 3.0}])
    def test_numbers_that_are_needed(self, place, log, facts):
        place.build()
        make_header_an_earlier_one(place, facts=facts)
        self.check(place, log)

    def test_one_with_a_part_too_many(self, place, log):
        """That is what damage to the name of the hash looks like."""
        place.build()
        header = json.loads(place.header.read_text())
        make_header_an_earlier_one(place, header_sha255=header["header_sha256"])
        self.check(place, log)


def test_an_earlier_header_is_good_enough(place, log):
    place.build()
    make_header_an_earlier_one(place)
    before = place.listing()
    assert place.derived().reusable() == {"count": 3}
    assert log() == [f"Reusing {place.main} and {place.more}"]
    assert place.listing() == before


class TestState:
    """What is said for people."""

    def test_in_turn(self, place):
        assert place.derived().state(None) == "to be made"
        place.build()
        assert place.derived().state(None) == "reused"
        reason = "it was made with length 64, now it is 65"
        assert place.derived(length=65).state(None) == f"to be made anew: {reason}"

    def test_a_file_of_somebody_else_is_checked(self, place):
        place.main.write_text("notes")
        checked = []
        state = place.derived().state(lambda: checked.append(True))
        assert state == "there, without a header of ours" and checked

        def refuse():
            raise UserError("no features")

        with pytest.raises(UserError, match="no features"):
            place.derived().state(refuse)

    @pytest.mark.parametrize("which", ["more", "header"])
    def test_something_in_the_way(self, place, which):
        getattr(place, which).write_text("{}")
        with pytest.raises(UserError, match="give another name or remove it"):
            place.derived().state(None)


@contextlib.contextmanager
def no_lock(path):
    raise AssertionError("the lock is taken")
    yield


class TestMadeOnce:
    def test_built_and_then_found(self, place, monkeypatch):
        def build():
            place.build()
            return {"count": 3}

        made = place.made_once(build)
        assert made[0] == {"count": 3}
        if not os.fork():
            # A builder that is killed before it releases the lock.
            lock = place.derived().lock()
            lock.__enter__()
            os._exit(0)
        os.wait()
        before = place.listing()
        monkeypatch.setattr(cached_file, "one_at_a_time", no_lock)
        assert place.made_once() == made
        assert set(before) - set(place.listing()) == {f"{place.main.name}.lock"}

    @pytest.mark.parametrize("is_first", [True, False])
    def test_rank_0_builds_if_it_can(self, place, monkeypatch, is_first):
        """Its log is the one that is shown: the others wait a moment before they lock."""
        events = []
        monkeypatch.setattr(launcher, "is_first", lambda: is_first)
        monkeypatch.setattr(launcher.time, "sleep", lambda seconds: events.append("wait"))
        lock = cached_file.one_at_a_time
        monkeypatch.setattr(
            cached_file, "one_at_a_time", lambda path: events.append("lock") or lock(path)
        )

        def build():
            place.build()
            return {"count": 3}

        place.made_once(build)
        assert events == (["lock"] if is_first else ["wait", "lock"])
        # What is there is taken at once.
        place.made_once()
        assert len(events) == (1 if is_first else 2)

    def test_a_file_of_somebody_else_needs_no_lock(self, place, monkeypatch):
        """It may lie in a folder that cannot be written."""
        place.main.write_text("notes")
        monkeypatch.setattr(cached_file, "one_at_a_time", no_lock)
        summary, snapshot = place.made_once(check=lambda: {"count": 1})
        assert summary == {"count": 1}
        snapshot.check()
        place.main.write_text("notes!")
        with pytest.raises(UserError, match=f"{place.main} was replaced"):
            snapshot.check()

    @pytest.mark.parametrize("moment", ["before", "after"])
    def test_what_appears_meanwhile_is_not_foreign(self, place, monkeypatch, moment):
        """Another process ends its work before or after the header is looked for."""
        file = place.derived()
        header = file._header

        def read_header():
            if moment == "before":
                place.build()
            found = header()
            if moment == "after":
                place.build()
            return found

        monkeypatch.setattr(file, "_header", read_header)
        assert not file.made_elsewhere()

    @pytest.mark.parametrize("by_the_other", ["all", "none"])
    def test_overtaken(self, place, by_the_other):
        """While it was paused another has taken the lock, and removed what it had written."""
        builds = []

        def build():
            builds.append(True)
            with place.derived().building() as (names, summary):
                if len(builds) == 1 and by_the_other == "all":
                    place.build()
                elif len(builds) == 1:
                    remove_temporary_files(str(place.main))
                else:
                    for name in names:
                        open(name, "w").close()
                summary["count"] = 4
            return summary

        summary, snapshot = place.made_once(build)
        assert summary == ({"count": 3} if by_the_other == "all" else {"count": 4})
        assert len(builds) == (1 if by_the_other == "all" else 2)
        snapshot.check()
        assert place.listing().keys() == {"main", "more", "main.json"}

    @pytest.mark.parametrize("again", [False, True])
    def test_overtaken_while_the_hashes_are_computed(self, place, monkeypatch, again):
        """No header stays behind, and the second try comes as always."""
        builds = []

        def sha256_of(path):
            digest = files.sha256_of(path)
            if len(builds) == 1 or again:
                remove_temporary_files(str(place.main))
            return digest

        def build():
            builds.append(True)
            with CachedFile(str(place.main), SOURCE).building():
                pass
            return {}

        monkeypatch.setattr(cached_file, "sha256_of", sha256_of)
        if again:
            with pytest.raises(UserError, match="another process has removed"):
                place.made_once(build)
            assert place.listing() == {}
        else:
            assert place.made_once(build)[0] == {}
            assert place.listing().keys() == {"main", "main.json"}
        assert len(builds) == 2

    @pytest.mark.parametrize("error", [None, OSError(errno.ENOENT, "No such file")], ids=type)
    def test_overtaken_again(self, place, error):
        def build():
            with place.derived().building():
                remove_temporary_files(str(place.main))
                if error:
                    raise error

        with pytest.raises(UserError, match="main cannot be written: another process has removed"):
            place.made_once(build)
        assert place.listing() == {}


class TestAfterAFailure:
    """What a process does that waited for another which made no file."""

    def events(self, place, monkeypatch, waited, size):
        """What happens in which order in a process of a job of so many."""
        found = []

        @contextlib.contextmanager
        def lock(path):
            found.append("lock")
            yield waited
            found.append("release")

        def build():
            found.append("build")
            return {}

        monkeypatch.setattr(cached_file, "one_at_a_time", lock)
        monkeypatch.setattr(cached_file.time, "sleep", lambda seconds: found.append(seconds))
        monkeypatch.setattr(launcher, "started", launcher.Worker(0, size))
        place.made_once(build)
        return found

    def test_it_waits_for_the_end_of_the_job_without_the_lock(self, place, monkeypatch):
        events = self.events(place, monkeypatch, waited=True, size=2)
        assert events == ["lock", "release", 10, "lock", "build", "release"]

    @pytest.mark.parametrize(("waited", "size"), [(False, 2), (True, 1)])
    def test_the_first_and_processes_of_other_jobs_build(self, place, monkeypatch, waited, size):
        assert self.events(place, monkeypatch, waited, size) == ["lock", "build", "release"]


class TestSnapshot:
    def test_nothing_happens(self, place):
        place.build()
        snapshot = Snapshot.of([str(place.main), str(place.more), str(place.folder / "none")])
        place.main.read_bytes()
        (place.folder / "none").write_text("is not looked at")
        snapshot.check()

    @pytest.mark.parametrize("change", ["replaced", "written", "removed"])
    def test_a_change(self, place, change):
        place.build()
        snapshot = Snapshot.of([str(place.main), str(place.more)])
        if change == "replaced":
            place.build()
        elif change == "written":
            place.main.write_bytes(place.main.read_bytes())
        else:
            place.main.unlink()
        with pytest.raises(UserError) as caught:
            snapshot.check()
        assert str(caught.value) == (
            f"{place.main} was replaced while this job ran; give each job a feature file of its own"
        )


class TestForeign:
    def test_something_else_at_the_headers_name(self, place):
        """As when features of `train.json` are called `train`."""
        place.header.write_text('{"data": []}')
        with pytest.raises(UserError, match="is no header of"):
            place.derived().made_elsewhere()
        assert place.header.read_text() == '{"data": []}'

    @pytest.mark.parametrize("name", ["main", "more", "main.json"])
    def test_what_a_killed_builder_left_is_removed(self, place, name):
        (place.folder / f".{name}.abc_def0").write_text("half")
        place.build()
        assert place.listing().keys() == {"main", "more", "main.json"}

    @pytest.mark.parametrize(
        "name",
        [".main.tf_record.notes", ".main.tf_record.abcdefgh", ".main.notes", ".main.Backup-1"],
    )
    def test_hidden_files_of_others_stay(self, place, name):
        """What a builder of `main.tf_record` is writing, for example."""
        (place.folder / name).write_text("not main's")
        place.build()
        assert (place.folder / name).read_text() == "not main's"

    @pytest.mark.parametrize(
        "header",
        [None, b"", b"{", b"[]", b"null", b'{"files": {"main": 1}}', b'{"format": 1}', b"\xff"],
    )
    def test_without_a_header_of_ours(self, place, header, log):
        place.main.write_text("notes")
        if header is not None:
            place.header.write_bytes(header)
        assert place.derived().reusable() is None
        assert place.derived().made_elsewhere()
        assert log() == []
        assert place.main.read_text() == "notes"

    def test_companion(self, place):
        place.more.write_text("notes")
        with pytest.raises(UserError) as caught:
            place.derived().made_elsewhere()
        message = str(caught.value)
        assert message.startswith(f"{place.more} exists and was not written by this program for")
        assert str(place.main) in message and "neither read nor replaced" in message
        assert place.listing() == {"more": b"notes"}

    def test_companion_that_another_file_has(self, place):
        """`more` belongs to `main` and is not to be replaced for `main2`."""
        place.build()
        other = CachedFile(str(place.folder / "main2"), SOURCE, [str(place.more)])
        assert other.reusable() is None
        with pytest.raises(UserError, match="was not written by this program for"):
            other.made_elsewhere()

    @pytest.mark.parametrize("which", ["main", "more"])
    @pytest.mark.parametrize("kind", ["folder", "dangling link"])
    def test_no_file(self, place, which, kind):
        path = getattr(place, which)
        if kind == "folder":
            path.mkdir()
        else:
            path.symlink_to(place.folder / "nowhere")
        with pytest.raises(UserError, match=f"{path} is not a file"):
            place.derived().made_elsewhere()

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
        assert place.derived().reusable() is None and not place.derived().made_elsewhere()
