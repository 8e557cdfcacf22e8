"""Files derived from others: reused, rebuilt, or refused as foreign."""

import contextlib
import errno
import json
import os

import pytest
import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.core.files import remove_temporary_files
from albert.data import cached_file
from albert.data.cached_file import CachedFile, Snapshot
from albert.distributed import launcher
from tests.helpers.running import exit_code_of_child

SOURCE = {"input_sha256": "abc", "length": 64, "lower": True}
ALL = {"main", "more", "main.json"}
FULL = "No space left on device"


class Place:
    """A folder with a derived file `main` and its companion `more`."""

    def __init__(self, folder, companion="more"):
        self.folder, self.header = folder, folder / "main.json"
        self.main, self.more = folder / "main", folder / companion

    def derived(self, **changes):
        return CachedFile(str(self.main), {**SOURCE, **changes}, [str(self.more)], ["count"])

    def build(self, content="1", **changes):
        with self.derived(**changes).building() as (names, summary):
            for name, text in zip(names, ("main" + content, "more" + content), strict=True):
                with open(name, "w") as file:
                    file.write(text)
            summary["count"] = 3
        return {"count": 3}

    def listing(self):
        return {f.name: f.read_bytes() for f in self.folder.iterdir() if f.is_file()}

    def edit(self, earlier=False, **changes):
        """Changes the header; None removes a key. Earlier versions had no hash of the header
        itself."""
        header = {**json.loads(self.header.read_text()), **changes}
        header |= {"header_sha256": None} if earlier else {}
        self.header.write_text(json.dumps({k: v for k, v in header.items() if v is not None}))


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


class TestBuilding:
    def test_a_written_file_is_reused(self, place, log):
        derived = place.derived()
        assert derived.reusable() is None and not derived.is_foreign()
        assert derived.state(None) == "will be made" and log() == []
        place.build()
        assert place.listing().keys() == ALL
        assert place.main.read_text() == "main1" and place.more.read_text() == "more1"
        header = json.loads(place.header.read_text())
        assert header["source"] == SOURCE and header["facts"] == {"count": 3}
        for is_earlier in (False, True):
            place.edit(is_earlier)
            before = place.listing()
            assert derived.reusable() == {"count": 3} and place.listing() == before
            assert log() == [f"Reusing {place.main} and {place.more}"]
            assert derived.state(None) == "reused"

    def test_files_may_move_and_companions_may_be_elsewhere(self, place):
        """All files may move; the companion may be in another folder, or missing."""
        place.build()
        moved = Place(place.folder / "moved", "../more")
        moved.folder.mkdir()
        for path in (place.main, place.more, place.header):
            path.rename(moved.folder / path.name)
        assert Place(moved.folder).derived().reusable() == {"count": 3}
        moved.build()
        assert moved.derived().reusable() == {"count": 3}
        place.more.write_text("changed")
        assert moved.derived().reusable() is None and not moved.derived().is_foreign()

    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (KeyError("x"), "^'x'$"),
            (OSError(errno.ENOSPC, FULL), f"/main cannot be written: {FULL}$"),
            (tf.errors.InternalError(None, None, f"{FULL}\nmore"), f"/main cannot be .*: {FULL}$"),
        ],
        ids=["any", "OSError", "OpError"],
    )
    def test_an_error_leaves_everything_as_it_was(self, place, error, message):
        place.build()
        before = place.listing()
        building = place.derived(length=1).building()
        with pytest.raises((KeyError, UserError), match=message), building as (names, _):
            with open(names[0], "w") as file:
                file.write("half")
            raise error
        assert place.listing() == before

    @pytest.mark.parametrize("broken", [1, 2, 3])
    @pytest.mark.parametrize("old", [True, False], ids=["old files", "no files"])
    def test_a_crash_while_renaming_causes_a_rebuild(self, place, monkeypatch, broken, old):
        """Wherever it stops, the next run sees that the files are not the ones it needs."""
        if old:
            place.build("old")
        steps = [os.replace] * (broken - 1)
        with monkeypatch.context() as patch, pytest.raises(IndexError):
            patch.setattr(os, "replace", lambda *names: steps.pop()(*names))
            place.build("new", length=128)
        derived = place.derived(length=128)
        assert derived.reusable() is None and not derived.is_foreign()
        assert derived.reusable(check_content=False) is None, "the old content has the new header"
        place.build("new", length=128)
        assert derived.reusable() == {"count": 3} and place.listing().keys() == ALL

    def test_leftovers_of_a_killed_builder_are_removed(self, place):
        """Those of another file, such as `main.tf_record`, stay."""
        others = {".main.tf_record.abcdefgh", ".main.notes", ".main.Back-1"}
        for name in (*others, *(f".{name}.abc_def0" for name in ALL)):
            (place.folder / name).write_text("half")
        place.build()
        assert place.listing().keys() == ALL | others


def made_anew(place, log, reason, **changes):
    """Fails unless the files would be rebuilt for this reason, and stay untouched until then."""
    before, derived = place.listing(), place.derived(**changes)
    log()
    assert derived.reusable() is None and not derived.is_foreign()
    assert log() == [f"Making {place.main} again: {reason}"]
    assert derived.state(None) == f"will be made again: {reason}"
    assert place.listing() == before
    place.build("new", **changes)
    assert derived.reusable() == {"count": 3}


def test_another_source_causes_a_rebuild(place, log):
    for key, value in (("length", 32), ("lower", False), ("input_sha256", "d"), ("stride", 1)):
        place.build()
        reason = f"it was made with other values of {key} (was {SOURCE.get(key)}, is {value})"
        made_anew(place, log, reason, **{key: value})


@pytest.mark.parametrize("which", ["main", "more"])
def test_changed_content_causes_a_rebuild(place, log, which):
    for content in (None, "", "Main1", "main1" if which == "more" else "more1"):
        place.build()
        path = getattr(place, which)
        path.unlink()
        if content is not None:
            path.write_text(content)
        missing, other = f"{path} is missing", f"the content of {path} has changed"
        made_anew(place, log, missing if content is None else other)


def test_another_version_causes_a_rebuild(place, log):
    for version in (0, 2, "1"):
        place.build()
        place.edit(version=version)
        made_anew(place, log, f"its header has version {version}, and this program writes 1")
    # A later version only promises its name and its number.
    place.header.write_text(json.dumps({"format": "albert-derived-file", "version": 2}))
    made_anew(place, log, "its header has version 2, and this program writes 1")


class TestDamagedHeader:
    """It causes a rebuild, and does not make the files foreign."""

    @pytest.mark.parametrize(
        ("begin", "end", "content"),
        [(end, None, b"") for end in (len('{\n  "format": "albert-derived-file"'), 100, -3)]
        + [(50, 50 + len(content), content) for content in (b"\0" * 20, b"\xff", b"[" * 100_000)],
    )
    def test_truncated_or_overwritten_headers_cause_a_rebuild(
        self, place, log, begin, end, content
    ):
        """The file itself is missing here; in the next tests it exists."""
        place.build()
        header = bytearray(place.header.read_bytes())
        header[begin:end] = content
        place.header.write_bytes(header)
        place.main.unlink()
        made_anew(place, log, f"its header {place.header} is damaged")

    @pytest.mark.parametrize("earlier", [True, False])
    @pytest.mark.parametrize(
        "changes",
        [
            {"version": None},
            *({k: v} for k in ("source", "facts", "files") for v in (None, [], "text", 1)),
            *({"facts": facts} for facts in ({}, {"coumt": 3}, {"count": "3"}, {"count": 3.0})),
            # Damage to the name of the hash looks like this.
            {"header_sha255": "0" * 64},
        ],
    )
    def test_missing_or_wrong_keys_cause_a_rebuild(self, place, log, changes, earlier):
        place.build()
        place.edit(earlier, **changes)
        made_anew(place, log, f"its header {place.header} is damaged")

    def test_any_changed_byte_causes_a_rebuild(self, place, log):
        """In a name, in a number or in the hash itself; the files are rebuilt, not reused."""
        place.build()
        content = place.header.read_bytes()
        reasons = {f"its header {place.header} is damaged"}
        reasons |= {f"its header has version {v}, and this program writes 1" for v in (0, 3, 5, 9)}
        for position, byte in enumerate(content):
            damaged = bytearray(content)
            damaged[position] ^= 1 << position % 5
            place.header.write_bytes(damaged)
            log()
            derived = place.derived()
            # White space may become other white space.
            if derived.reusable() is None or not bytes([byte, damaged[position]]).isspace():
                (line,) = log()
                assert line.removeprefix(f"Making {place.main} again: ") in reasons
                assert not derived.is_foreign()


@contextlib.contextmanager
def no_lock(path):
    raise AssertionError("the lock is taken")
    yield


class TestMadeOnce:
    def test_a_built_file_is_found_without_the_lock(self, place, monkeypatch):
        made = place.derived().build_once(place.build, None)
        assert made[0] == {"count": 3}

        def end_with_the_lock() -> None:
            """Ends like a builder that is killed before it releases the lock."""
            lock = place.derived().lock()
            lock.__enter__()
            os._exit(0)

        assert exit_code_of_child(end_with_the_lock) == 0
        before = place.listing()
        monkeypatch.setattr(cached_file, "exclusive", no_lock)
        assert place.derived().build_once(None, None) == made
        assert before.keys() - place.listing().keys() == {"main.lock"}

    @pytest.mark.parametrize("is_first", [True, False])
    def test_rank_0_builds_first(self, place, monkeypatch, is_first):
        """Only its log is shown, so the others wait a moment before they build their first file."""
        events = []
        launcher.wait_for_rank_0.cache_clear()
        monkeypatch.setattr(launcher, "is_first", lambda: is_first)
        monkeypatch.setattr(launcher.time, "sleep", lambda seconds: events.append("wait"))
        # The second time, the existing file is taken at once.
        for _ in range(2):
            place.derived().build_once(lambda: events.append("build") or place.build(), None)
            assert events == (["build"] if is_first else ["wait", "build"])
        place.main.unlink()
        place.derived().build_once(lambda: events.append("build") or place.build(), None)
        assert events[-2:] == ["build", "build"]

    @pytest.mark.parametrize("moment", [0, 1])
    def test_a_file_that_appears_meanwhile_is_not_foreign(self, place, monkeypatch, moment):
        """Another process finishes before or after the header is read."""
        file = place.derived()
        steps = [file._header]
        steps.insert(moment, place.build)
        monkeypatch.setattr(file, "_header", lambda: [step() for step in steps][1 - moment])
        assert not file.is_foreign()

    @pytest.mark.parametrize("moment", ["written", "hashed"])
    @pytest.mark.parametrize("times", [1, 2])
    def test_an_overtaken_builder_tries_once_more(self, place, monkeypatch, moment, times):
        """During a pause, another process has taken the lock and removed the unfinished file."""
        builds = []

        def remove_at(now):
            if now == moment and len(builds) <= times:
                remove_temporary_files(str(place.main))
                return OSError(errno.ENOENT, "No such file")

        def build():
            builds.append(True)
            with CachedFile(str(place.main), SOURCE).building():
                if error := remove_at("written"):
                    raise error
            return {}

        def sha256_of(path, sha256_of=cached_file.sha256_of):
            return [sha256_of(path), remove_at("hashed")][0]

        monkeypatch.setattr(cached_file, "sha256_of", sha256_of)
        if times == 1:
            assert place.derived().build_once(build, None)[0] == {}
        else:
            with pytest.raises(UserError, match="main cannot be written: another process rem"):
                place.derived().build_once(build, None)
        assert place.listing().keys() == ({"main", "main.json"} if times == 1 else set())
        assert len(builds) == 2

    def test_an_overtaken_builder_takes_the_others_files(self, place):
        def build():
            with place.derived().building():
                place.build()

        assert place.derived().build_once(build, None)[0] == {"count": 3}

    @pytest.mark.parametrize(
        ("waited", "size", "expected"),
        [
            (True, 2, "lock release 10.0 lock build release"),
            *((waited, size, "lock build release") for waited, size in ((False, 2), (True, 1))),
        ],
    )
    def test_waiting_workers_build_after_a_failed_builder(
        self, place, monkeypatch, waited, size, expected
    ):
        """A worker that waited for the builder waits for the end of the job without the lock; the
        first worker and other jobs build."""
        events = []

        @contextlib.contextmanager
        def lock(path):
            events.append("lock")
            yield waited
            events.append("release")

        monkeypatch.setattr(cached_file, "exclusive", lock)
        monkeypatch.setattr(cached_file.time, "sleep", lambda seconds: events.append(str(seconds)))
        monkeypatch.setattr(launcher, "started", launcher.Worker(0, size))
        place.derived().build_once(lambda: events.append("build") or {}, None)
        assert events == expected.split()


@pytest.mark.parametrize(
    "change", [Place.build, lambda p: p.main.touch(), lambda p: p.main.unlink()]
)
def test_a_snapshot_detects_replaced_files(place, change):
    place.build()
    snapshot = Snapshot.of([str(place.main), str(place.more), str(place.folder / "none")])
    (place.folder / "none").write_text("is not looked at")
    snapshot.check()
    change(place)
    with pytest.raises(UserError, match=f"^{place.main} was replaced while this job ran; give"):
        snapshot.check()


class TestForeign:
    @pytest.mark.parametrize(
        "header",
        [None, b"", b"{", b"[]", b"null", b'{"files": {"main": 1}}', b'{"format": 1}', b"\xff"],
    )
    def test_a_file_without_a_header_of_ours_is_foreign(self, place, header, log, monkeypatch):
        """It is checked without a lock, because its folder may not be writable."""
        place.main.write_text("notes")
        if header is not None:
            place.header.write_bytes(header)
        assert place.derived().is_foreign()
        assert place.derived().state(dict) == "exists, not written by this program"
        with pytest.raises(ZeroDivisionError):
            place.derived().state(lambda: 1 / 0)
        monkeypatch.setattr(cached_file, "exclusive", no_lock)
        summary, snapshot = place.derived().build_once(None, lambda: {"count": 1})
        assert summary == {"count": 1} and log() == []
        snapshot.check()
        # Replaced while it is checked.
        _, snapshot = place.derived().build_once(None, lambda: place.main.write_text("notes!"))
        with pytest.raises(UserError, match=f"{place.main} was replaced"):
            snapshot.check()

    @pytest.mark.parametrize(
        ("name", "make", "message"),
        [
            # Occurs when features of `train.json` are called `train`.
            (
                "header",
                lambda path: path.write_text('{"data": []}'),
                "exists and is not a header of",
            ),
            ("more", lambda path: path.write_text("notes"), "was not written by this .*{main}; "),
            ("main", lambda path: path.mkdir(), "is not a file"),
            ("more", lambda path: path.symlink_to("none"), "is not a file"),
        ],
    )
    def test_files_in_the_way_are_named_and_kept(self, place, name, make, message):
        """They are neither read nor replaced."""
        path = getattr(place, name)
        make(path)
        before = place.listing()
        message = f"^{path} .*{message.format(main=place.main)}.*give another name"
        with pytest.raises(UserError, match=message):
            place.derived().state(None)
        with pytest.raises(UserError, match=message):
            place.derived().build_once(place.build, None)
        assert place.listing() == before
