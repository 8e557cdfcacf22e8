"""A lock between processes."""

import os
import signal
import socket
import time
from collections.abc import Callable

import pytest

from albert.core import locks
from albert.core.errors import UserError
from tests.helpers.running import exit_code, fork


class Holder:
    def __init__(self, take: Callable[[], object]):
        is_held, self._end = os.pipe(), os.pipe()

        def hold() -> None:
            held = take()
            os.write(is_held[1], b"x")
            os.read(self._end[0], 1)
            del held
            locks.release_held()

        self.pid = fork(hold)
        os.close(is_held[1])
        assert os.read(is_held[0], 1) == b"x"

    def tell_to_end(self, *_) -> None:
        os.write(self._end[1], b"x")

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        exit_code(self.pid)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "file")


@pytest.fixture
def hold(path):
    yield lambda: locks.hold_until_exit(path, "--output_dir out")
    locks.release_held()


@pytest.fixture
def enter(path):
    return lambda: [block := locks.exclusive(path), block.__enter__()]


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(locks, "STALE_SECONDS", 1.0)
    monkeypatch.setattr(locks, "REFRESH_SECONDS", 0.1)


@pytest.fixture
def never(monkeypatch):
    monkeypatch.setattr(locks, "STALE_SECONDS", 1e6)


def test_a_waiting_process_gets_the_lock_after_its_holder(path, enter, never, monkeypatch):
    holder = Holder(enter)
    # Runs instead of the log line when this process begins to wait.
    monkeypatch.setattr(locks.LOG, "info", holder.tell_to_end)
    with locks.exclusive(path):
        assert exit_code(holder.pid) == 0 and os.path.exists(path + ".lock")
    assert not os.path.exists(path + ".lock")


def test_the_lock_of_a_killed_holder_is_free_at_once(path, enter, never):
    Holder(enter).kill()
    with locks.exclusive(path):
        pass
    assert not os.path.exists(path + ".lock")


def test_the_lock_of_a_holder_that_was_killed_before_it_wrote_its_name_is_free_soon(path, never):
    open(path + ".lock", "w").close()
    with locks.exclusive(path, waits=False):
        assert os.path.getsize(path + ".lock")


def test_the_lock_of_a_killed_holder_on_another_host_expires(path, enter, soon, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(socket, "gethostname", lambda: "another-host")
        Holder(enter).kill()
    before = time.monotonic()
    with locks.exclusive(path):
        assert time.monotonic() - before > locks.STALE_SECONDS / 2


def test_a_lock_expires_in_half_a_minute(path):
    """Other processes read the duration in the file. An error releases the lock."""
    with pytest.raises(KeyError), locks.exclusive(path):
        with open(path + ".lock", encoding="utf-8") as file:
            (seconds,) = (line for line in file if line.startswith("duration="))
        assert 4 * locks.REFRESH_SECONDS < float(seconds.removeprefix("duration=")) <= 30
        raise KeyError
    assert not os.path.exists(path + ".lock")
    below = os.path.join(__file__, "x")
    with pytest.raises(UserError, match="cannot be written"), locks.exclusive(below):
        pass
    with pytest.raises(UserError, match="cannot be written"):
        locks.hold_until_exit(below, "--output_dir out")


class TestHold:
    def test_waits_a_limited_time_and_names_the_holder(self, path, hold, never, monkeypatch):
        holder, lines = Holder(hold), []
        where = f"in use by process {holder.pid} on {socket.gethostname()}; "
        with monkeypatch.context() as patch, pytest.raises(UserError) as caught:
            patch.setattr(locks, "WAIT_SECONDS", 0.1)
            hold()
        assert str(caught.value) == (
            f"--output_dir out is still {where}run the same command again when that process "
            "has ended, or give another folder"
        )
        assert caught.value.exit_code == 1 and os.path.exists(path + ".lock")

        def waiting(line, *values):
            lines.append(line % values)
            holder.tell_to_end()

        monkeypatch.setattr(locks.LOG, "info", waiting)
        hold()
        assert exit_code(holder.pid) == 0
        assert lines == [f"--output_dir out is {where}waiting up to 300 s until it ends"]
        locks.release_held()
        assert not os.path.exists(path + ".lock")

    def test_forked_processes_do_not_change_it(self, path, hold, soon):
        hold()
        before = os.stat(path + ".lock").st_mtime_ns
        assert exit_code(fork(locks.release_held)) == 0
        deadline = time.monotonic() + 60
        while os.stat(path + ".lock").st_mtime_ns == before:
            assert time.monotonic() < deadline, "it is not refreshed any more"
            time.sleep(0.01)

    def test_a_paused_holder_ends_if_another_took_the_lock(self, path, hold, soon):
        holder = Holder(hold)
        os.kill(holder.pid, signal.SIGSTOP)
        hold()
        os.kill(holder.pid, signal.SIGCONT)
        assert exit_code(holder.pid) == 1
        assert os.path.exists(path + ".lock")
