"""fetch() against a server whose faults are ordered one by one."""

import email.utils
import errno
import fcntl
import hashlib
import http.server
import os
import random
import re
import shutil
import ssl
import struct
import subprocess
import termios
import threading
import time

import filelock
import pytest

from download import fetch as module
from download.fetch import fetch, making
from runtime.errors import UserError
from tests.helpers.download import Fault, run_python
from tests.helpers.forking import ROOT

BODY = random.Random(1).randbytes(300_000)
SHA256 = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def url(server):
    server.files["file.bin"] = BODY
    return server.url + "file.bin"


@pytest.fixture
def get(server, url, tmp_path, monkeypatch):
    """Fetches the file while these faults happen; returns of each request the range and what was
    sent. Nothing but the whole file may be there in the end."""

    def get(*faults, tries=module._TRIES, **expected):
        monkeypatch.setattr(module, "_TRIES", tries)
        server.faults += faults
        fetch(url, tmp_path / "file.bin", **expected)
        assert (tmp_path / "file.bin").read_bytes() == server.files["file.bin"]
        assert names(tmp_path) == ["file.bin"]
        return [(request.range, request.sent) for request in server.requests]

    return get


@pytest.fixture
def sleeps(monkeypatch):
    """The waits that fetch asks for, in seconds; none of them is waited."""
    asked = []
    monkeypatch.setattr(module.time, "sleep", asked.append)
    return asked


def names(folder):
    return sorted(os.listdir(folder))


def part_of(url, path, content):
    """Lays down what a killed run leaves."""
    note = f'{{"url": "{url}", "header": "ETag", "value": "\\"one\\""}}'
    path.with_name(path.name + ".part").write_bytes(content)
    path.with_name(path.name + ".part.json").write_text(note)


def test_the_file_has_the_mode_of_any_new_file(get, tmp_path):
    assert get() == [(None, len(BODY))]
    (tmp_path / "other").touch()
    assert len({(tmp_path / name).stat().st_mode for name in ("file.bin", "other")}) == 1


CUT = Fault(cut_after=100_000)
ELSEWHERE = {"Content-Range": f"bytes 0-{len(BODY) - 1}/{len(BODY)}"}
AGAIN = ("bytes=100000-", 200_000)


@pytest.mark.parametrize(
    ("faults", "requests"),
    [
        ([CUT, Fault(cut_after=50_002)], [("bytes=100000-", 50_002), ("bytes=150002-", 149_998)]),
        ([CUT, Fault(deaf_to_range=True)], [("bytes=100000-", 300_000)]),
        ([CUT, Fault(headers=ELSEWHERE)], [AGAIN, (None, 300_000)]),
        ([Fault(cut_after=100_000, without_length=True)], [AGAIN]),
    ],
    ids=["missing bytes alone", "no ranges", "a range that begins elsewhere", "found by size"],
)
def test_after_a_cut(get, server, faults, requests):
    assert get(*faults, sha256=SHA256, size=len(BODY)) == [(None, 100_000), *requests]
    assert {request.if_range for request in server.requests if request.range} == {'"one"'}


DATE = "Sat, 01 Jan 2022 00:00:00 GMT"


@pytest.mark.parametrize(("headers", "version"), [({"Last-Modified": DATE}, DATE), ({}, None)])
def test_where_the_etag_is_weak(get, server, headers, version):
    """The date serves; without any version nothing is taken up."""
    server.etag = 'W/"one"'
    assert get(Fault(cut_after=5, headers=headers))[1][0] == (version and "bytes=5-")
    assert server.requests[1].if_range == version


def test_silence_counts_as_a_lost_connection(get, monkeypatch):
    monkeypatch.setattr(module, "_TIMEOUT", 0.3)
    assert [asked for asked, _ in get(Fault(hold_after=1000))][:2] == [None, "bytes=1000-"]


class TestPart:
    """What an earlier call has left."""

    def test_a_later_call_goes_on_where_a_failed_one_stopped(self, get, tmp_path):
        with pytest.raises(UserError, match="gave up after 1 tries"):
            get(Fault(cut_after=70_000), tries=1)
        assert names(tmp_path) == ["file.bin.part", "file.bin.part.json"]
        requests = [(None, 70_000), ("bytes=70000-", len(BODY) - 70_000)]
        assert get(sha256=SHA256) == requests

    @pytest.mark.parametrize("note", ["", "{", "[]", '{"url": 1}', "\x00"])
    def test_without_a_usable_note_it_is_not_trusted(self, get, tmp_path, note):
        (tmp_path / "file.bin.part").write_bytes(b"of something else")
        (tmp_path / "file.bin.part.json").write_text(note)
        assert get() == [(None, len(BODY))]

    def test_that_of_another_address_is_not_taken_up(self, get, server, tmp_path):
        part_of(server.url + "other.bin", tmp_path / "file.bin", bytes(1000))
        assert get() == [(None, len(BODY))]

    @pytest.mark.parametrize("deaf", [False, True])
    def test_a_file_that_changed_in_between_is_not_mixed(self, get, server, url, tmp_path, deaf):
        """`deaf`: the server ignores If-Range and continues with bytes of the new version."""
        part_of(url, tmp_path / "file.bin", BODY[:100_000])
        server.files["file.bin"], server.etag = BODY[::-1], '"two"'
        get(Fault(deaf_to_if_range=deaf), tries=2)

    def test_a_run_killed_after_the_last_byte_needs_no_more(self, get, url, tmp_path):
        part_of(url, tmp_path / "file.bin", BODY)
        assert get(sha256=SHA256) == [(f"bytes={len(BODY)}-", 0)]

    def test_one_longer_than_the_file_is_dropped(self, get, url, tmp_path):
        part_of(url, tmp_path / "file.bin", BODY + b"x")
        assert [asked for asked, _ in get()] == [f"bytes={len(BODY) + 1}-", None]

    def test_a_page_in_place_of_the_file_does_not_cost_it(self, get, server, url, tmp_path):
        part_of(url, tmp_path / "file.bin", BODY[:1000])
        with pytest.raises(UserError, match="announces 300000 bytes, expected 300001"):
            get(size=len(BODY) + 1)
        server.files["file.bin"], server.etag = b"please log in", '"page"'
        with pytest.raises(UserError, match="announces 13 bytes"):
            get(size=len(BODY))
        assert (tmp_path / "file.bin.part").read_bytes() == BODY[:1000]


class TestTries:
    @pytest.mark.parametrize(
        ("faults", "waits"),
        [
            ([(500, {}), (502, {}), (503, {}), (504, {}), (500, {})], [1, 2, 4, 8, 10]),
            ([(429, {"Retry-After": "7"})], [7]),
            ([(503, {"Retry-After": "7"})], [7]),
            ([(429, {"Retry-After": "86400"})], [10]),
            ([(429, {"Retry-After": "soon"})], [1]),
            ([(429, {"Retry-After": email.utils.formatdate(time.time() + 1e6)})], [10]),
        ],
        ids=["doubled", "asked for", "asked for", "bounded", "no number", "a date"],
    )
    def test_waits(self, get, sleeps, monkeypatch, faults, waits):
        monkeypatch.setattr(module, "_FIRST_WAIT", 1.0)
        monkeypatch.setattr(module, "_LONGEST_WAIT", 10.0)
        get(*(Fault(status=status, headers=headers) for status, headers in faults))
        assert sleeps == waits

    def test_are_bounded_and_leave_nothing(self, get, server, tmp_path, sleeps):
        with pytest.raises(UserError, match="HTTP 500; gave up after 4 tries"):
            get(*[Fault(status=500)] * 9, tries=4)
        assert len(server.requests) == 4 and names(tmp_path) == []

    def test_that_bring_something_are_not_counted(self, get, sleeps):
        assert len(get(*[Fault(cut_after=30_000)] * 9, tries=2)) == 10

    def test_a_server_that_always_cuts_at_the_same_byte_is_given_up(self, get, server, sleeps):
        with pytest.raises(UserError, match="1000 bytes read, 299000 more"):
            get(*[Fault(cut_after=1000, deaf_to_range=True)] * 9, tries=3)
        assert len(server.requests) == 3

    def test_a_refused_connection_is_tried_again(self, get, server, sleeps):
        server.server_close()
        with pytest.raises(UserError, match="Connection refused; gave up after 3 tries"):
            get(tries=3)
        assert len(sleeps) == 2

    @pytest.mark.parametrize("status", [204, 400, 401, 403, 404, 410])
    def test_a_refusal_is_final(self, get, server, tmp_path, sleeps, status):
        with pytest.raises(UserError, match=f"file.bin: HTTP {status}; check the address"):
            get(Fault(status=status))
        assert len(server.requests) == 1 and sleeps == [] and names(tmp_path) == []

    @pytest.mark.parametrize("place", ["ftp://127.0.0.1:1/x", "file:///etc/passwd"])
    def test_a_redirection_to_elsewhere_is_final(self, get, url, server, tmp_path, sleeps, place):
        with pytest.raises(UserError, match=f"^{url}: .*; check the address"):
            get(Fault(status=302, headers={"Location": place}))
        assert len(server.requests) == 1 and sleeps == [] and names(tmp_path) == []

    @pytest.mark.parametrize(
        "url", ["ftp://x/y", "file:///etc/passwd", "x", "http://[::1/x", "http://h:p/x"]
    )
    def test_an_unusable_address_is_final(self, tmp_path, url, sleeps):
        with pytest.raises(UserError, match="address"):
            fetch(url, tmp_path / "x")
        assert sleeps == [] and names(tmp_path) == []


@pytest.mark.skipif(not shutil.which("openssl"), reason="makes a certificate with openssl")
def test_an_unknown_certificate_is_final(tmp_path, monkeypatch, sleeps):
    monkeypatch.setenv("NO_PROXY", "*")
    key, certificate = str(tmp_path / "key"), str(tmp_path / "certificate")
    options = ["-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout"]
    make = ["openssl", "req", "-x509", *options, key, "-out", certificate]
    subprocess.run(make, check=True, capture_output=True, timeout=60)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        sleeps.clear()  # openssl was waited for
        with pytest.raises(UserError, match="self-signed.*REQUESTS_CA_BUNDLE"):
            fetch(f"https://127.0.0.1:{server.server_port}/x", tmp_path / "x")
        thread.join(10)
    assert sleeps == []


@pytest.mark.parametrize(
    ("expected", "fault", "message"),
    [
        ({"sha256": "0" * 64}, Fault(), f"SHA-256 is {SHA256}, expected {'0' * 64}"),
        ({"sha256": SHA256, "size": 300_001}, Fault(), "announces 300000 bytes, expected 300001"),
        ({"size": 299_999}, Fault(without_length=True), "length is 300000, expected 299999"),
    ],
)
def test_another_file_keeps_the_old_one(get, tmp_path, expected, fault, message):
    (tmp_path / "file.bin").write_bytes(b"old")
    with pytest.raises(UserError, match=message):
        get(fault, **expected)
    assert names(tmp_path) == ["file.bin"]
    assert (tmp_path / "file.bin").read_bytes() == b"old"
    get(sha256=SHA256)


def test_a_full_disk_is_one_clear_line(url, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module, "flush", full)
    with (
        pytest.raises(UserError, match="file.bin: No space left on device; .* room on the disk"),
        making(tmp_path / "file.bin"),
    ):
        fetch(url, tmp_path / "file.bin")
    assert names(tmp_path) == ["file.bin.part", "file.bin.part.json"]


def test_what_was_written_before_the_disk_was_full_is_taken_up(url, server, tmp_path):
    """The limit on the size of files makes write() fail as a full disk does."""
    limit = "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (100_000, r.RLIM_INFINITY)); "
    done = run_python("-c", limit + PROGRAM, url, tmp_path / "file.bin")
    assert "file.bin: File too large; check" in done.stderr
    assert (tmp_path / "file.bin.part").stat().st_size == 100_000
    fetch(url, tmp_path / "file.bin")
    assert server.requests[-1].range == "bytes=100000-"
    assert (tmp_path / "file.bin").read_bytes() == BODY


def test_one_process_at_a_time_makes_a_file(start, tmp_path):
    program = "import sys, logging; from pathlib import Path; from download.fetch import making\n"
    program += "logging.basicConfig(level='INFO')\n"
    program += "with making(Path(sys.argv[1])): print('in', flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "cwd": ROOT}
    first = start("-c", program, tmp_path / "new" / "file.bin", **pipes)
    assert first.stdout.readline() == "in\n"
    second = start("-c", program, tmp_path / "new" / "file.bin", **pipes)
    assert "waiting for another process" in second.stderr.readline()
    first.stdin.write("\n")
    first.stdin.flush()
    assert second.stdout.readline() == "in\n"
    second.kill()
    second.wait(10)
    # What a killed process leaves keeps nobody away.
    with making(tmp_path / "new" / "file.bin"):
        pass
    assert names(tmp_path / "new") == []


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EROFS, errno.EACCES])
def test_a_file_system_without_locks_will_do(tmp_path, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(filelock.FileLock, "_acquire", refuse)
    with making(tmp_path / "file.bin"):
        (tmp_path / "file.bin").touch()
    assert names(tmp_path) == ["file.bin"]


PROGRAM = """import sys; from pathlib import Path
from download.fetch import fetch, making
with making(Path(sys.argv[2])): fetch(sys.argv[1], Path(sys.argv[2]))
"""


def test_the_proxy_of_the_environment_is_used(server, tmp_path):
    server.files["far/file.bin"] = BODY
    environment = {**os.environ, "http_proxy": server.url, "no_proxy": ""}
    url = "http://mirror.invalid/far/file.bin"
    done = run_python("-c", PROGRAM, url, tmp_path / "file.bin", env=environment)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "file.bin").read_bytes() == BODY


def test_a_terminal_gets_a_bar(url, start, tmp_path):
    part_of(url, tmp_path / "file.bin", BODY[: len(BODY) // 2])
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    child = start("-c", PROGRAM, url, tmp_path / "file.bin", stderr=theirs, cwd=ROOT)
    assert child.wait(60) == 0
    os.write(theirs, b"\n")  # there is something to read in any case
    os.close(theirs)
    assert re.search(r"file\.bin: 100%.*293k/293k", os.read(ours, 10_000).decode())
    os.close(ours)


def test_no_terminal_gets_a_line_now_and_then(url, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(module, "_LOG_EVERY", 0.0)
    caplog.set_level("INFO")
    fetch(url, tmp_path / "file.bin")
    assert "file.bin: fetching" in caplog.messages
    assert "file.bin: 0.3 of 0.3 MiB" in caplog.messages


def test_no_tensorflow_is_imported():
    commands = "download_dataset, download_glue_data, download_pretrained_model"
    program = f"import sys; from download import {commands}\n"
    program += "print([m for m in sys.modules if m.split('.')[0] in ('tensorflow', 'numpy')])"
    assert run_python("-c", program).stdout.strip() == "[]"


def test_what_to_install_is_one_line():
    done = run_python("-S", "download/download_dataset.py", "--help")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("download/download_dataset.py: error: ")
    assert "has not all packages: filelock requests tqdm; use" in done.stderr
