"""fetch() against a server whose faults are ordered one by one."""

import errno
import hashlib
import http.server
import os
import random
import resource
import shutil
import ssl
import sys
import threading
from unittest import mock

import filelock
import pytest

from albert.core.errors import UserError
from albert.download import fetch as module
from albert.download.fetch import fetch, making
from tests.helpers.download import Fault
from tests.helpers.files import limited
from tests.helpers.forking import ROOT
from tests.helpers.running import run

BODY = random.Random(1).randbytes(300_000)
SHA256 = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def url(server):
    server.files["file.bin"] = BODY
    return server.url + "file.bin"


@pytest.fixture
def get(server, url, tmp_path, monkeypatch):
    """Fetches the file despite faults; returns the range of each request and the bytes sent."""

    def get(*faults, tries=module.TRIES, **expected):
        monkeypatch.setattr(module, "TRIES", tries)
        server.faults += faults
        fetch(url, tmp_path / "file.bin", **expected)
        assert (tmp_path / "file.bin").read_bytes() == server.files["file.bin"]
        assert names(tmp_path) == ["file.bin"]
        return [(request.range, request.sent) for request in server.requests]

    return get


@pytest.fixture
def sleeps(monkeypatch):
    seconds = []
    monkeypatch.setattr(module.time, "sleep", seconds.append)
    return seconds


def names(folder):
    return sorted(os.listdir(folder))


def test_the_file_is_on_disk_before_it_has_its_name(get, tmp_path):
    with mock.patch.object(module, "flush", wraps=module.flush) as flush:
        assert get() == [(None, len(BODY))]
    flush.assert_called_once_with(f"{tmp_path}/file.bin.part")
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
)
def test_after_a_lost_connection_the_rest_is_fetched(get, faults, requests):
    assert get(*faults, sha256=SHA256, size=len(BODY)) == [(None, 100_000), *requests]


def test_silence_counts_as_a_lost_connection(get, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT", 0.3)
    assert [part for part, _ in get(Fault(hold_after=1000))][:2] == [None, "bytes=1000-"]


class TestPart:
    @pytest.fixture
    def part(self, tmp_path):
        return tmp_path / "file.bin.part"

    def test_a_later_call_resumes_a_failed_one(self, get, tmp_path):
        with pytest.raises(UserError, match="gave up after 1 attempts"):
            get(Fault(cut_after=70_000), tries=1)
        assert names(tmp_path) == ["file.bin.part"]
        requests = [(None, 70_000), ("bytes=70000-", len(BODY) - 70_000)]
        assert get(sha256=SHA256) == requests

    def test_a_part_of_another_file_is_removed(self, get, part):
        part.write_bytes(bytes(1000))
        with pytest.raises(UserError, match="SHA-256 is .*; the file was removed; run again"):
            get(sha256=SHA256)
        assert get(sha256=SHA256)[1:] == [(None, len(BODY))]

    def test_a_complete_part_is_used_and_a_longer_one_dropped(self, get, part):
        part.write_bytes(BODY)
        assert get(sha256=SHA256) == [(f"bytes={len(BODY)}-", 0)]
        part.write_bytes(BODY + b"x")
        assert [start for start, _ in get()][1:] == [f"bytes={len(BODY) + 1}-", None]

    def test_a_page_instead_of_the_file_does_not_destroy_it(self, get, server, part):
        part.write_bytes(BODY[:1000])
        with pytest.raises(UserError, match="announces 300000 bytes, expected 300001"):
            get(size=len(BODY) + 1)
        server.files["file.bin"] = b"please log in"
        with pytest.raises(UserError, match="announces 13 bytes"):
            get(Fault(deaf_to_range=True), size=len(BODY))
        assert part.read_bytes() == BODY[:1000]


class TestTries:
    def test_waits_double(self, get, sleeps, monkeypatch):
        monkeypatch.setattr(module, "FIRST_WAIT", 1.0)
        get(*(Fault(status=status) for status in (408, 429, 502, 503, 500)))
        assert sleeps == [1, 2, 4, 8, 16]

    def test_tries_that_make_progress_are_not_counted(self, get, sleeps):
        assert len(get(*[Fault(cut_after=30_000)] * 9, tries=2)) == 10

    def test_always_losing_the_connection_at_one_byte_is_an_error(self, get, server, sleeps):
        with pytest.raises(UserError, match="1000 bytes read, 299000 more"):
            get(*[Fault(cut_after=1000, deaf_to_range=True)] * 9, tries=3)
        assert len(server.requests) == 3

    def test_a_refused_connection_is_tried_again(self, get, server, tmp_path, sleeps):
        server.server_close()
        with pytest.raises(UserError, match="Connection refused; gave up after 3 attempts"):
            get(tries=3)
        assert len(sleeps) == 2 and names(tmp_path) == []

    @pytest.mark.parametrize(
        ("status", "location"),
        [
            *((status, "file:///etc/passwd") for status in (204, 400, 404, 302)),
            *((302, f"http://{host}") for host in ("[", "[::1/", "h:99999/", "a..b/")),
            (302, "//[v1.x]/\xe9"),
        ],
    )
    def test_a_refusal_and_a_redirection_elsewhere_are_final(
        self, get, url, server, tmp_path, sleeps, status, location
    ):
        with pytest.raises(UserError, match=f"^{url}: .*; check the address"):
            get(Fault(status=status, headers={"Location": location}))
        assert len(server.requests) == 1 and sleeps == [] and names(tmp_path) == []

    @pytest.mark.parametrize("url", ["ftp://x/y", "x", "http://[::1/x", "http://h:p/x"])
    def test_an_unusable_address_is_final(self, tmp_path, url, sleeps):
        with pytest.raises(UserError, match="address"):
            fetch(url, tmp_path / "x")
        assert sleeps == [] and names(tmp_path) == []


@pytest.mark.skipif(not shutil.which("openssl"), reason="makes a certificate with openssl")
def test_an_unknown_certificate_is_final(tmp_path, monkeypatch, sleeps):
    monkeypatch.setenv("NO_PROXY", "*")
    options = "-x509 -newkey rsa:2048 -nodes -subj /CN=localhost -keyout key -out certificate"
    assert run(["openssl", "req", *options.split()], cwd=tmp_path).returncode == 0
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
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
        ({"size": 299_999}, Fault(without_length=True), "the server sends more than 299999 bytes"),
    ],
)
def test_a_wrong_file_does_not_replace_the_old_one(get, tmp_path, expected, fault, message):
    (tmp_path / "file.bin").write_bytes(b"old")
    with pytest.raises(UserError, match=message):
        get(fault, **expected)
    assert names(tmp_path) == ["file.bin"]
    assert (tmp_path / "file.bin").read_bytes() == b"old"
    get(sha256=SHA256)


@pytest.mark.parametrize("size", [None, 100_000])
def test_an_endless_answer_is_not_received(get, tmp_path, monkeypatch, size):
    monkeypatch.setattr(module, "MOST_BYTES", 100_000)
    message = "sends more than 100000 bytes; the file was removed"
    most = limited(resource.RLIMIT_FSIZE, 100_000 + module.CHUNK)
    with most, pytest.raises(UserError, match=message):
        get(Fault(without_length=True), size=size)
    assert names(tmp_path) == []


def test_after_a_full_disk_the_download_resumes(get, url, tmp_path):
    message = "file.bin: File too large; check .* free disk space"
    full = limited(resource.RLIMIT_FSIZE, 100_000)
    with pytest.raises(UserError, match=message), full, making(tmp_path / "file.bin"):
        fetch(url, tmp_path / "file.bin")
    assert get()[-1] == ("bytes=100000-", 200_000)


def test_a_file_system_needs_no_locks(url, tmp_path, monkeypatch):
    refuse = mock.Mock(side_effect=OSError(errno.ENOLCK, "No locks available"))
    monkeypatch.setattr(filelock.SoftFileLease, "acquire", refuse)
    with making(tmp_path / "file.bin"):
        fetch(url, tmp_path / "file.bin")
    assert names(tmp_path) == ["file.bin"]


def test_a_servers_words_cannot_control_the_terminal(get, log):
    faults = [(503, "\x1b]0;owned\x07\x1b[31mred\x9b"), (404, "\x1b[2Jgone\x9c")]
    with pytest.raises(UserError, match=r"HTTP 404; check the address\Z") as caught:
        get(*(Fault(status=status, reason=reason) for status, reason in faults))
    lines = log()
    assert "HTTP 503; trying again" in lines[0]
    assert all(c.isprintable() for c in "".join([str(caught.value), *lines]))


def test_a_missing_package_is_one_line():
    done = run([sys.executable, "-S", "download/download_dataset.py", "--help"], cwd=ROOT)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("download/download_dataset.py: error: ")
    assert "lacks packages: absl filelock requests tqdm; install" in done.stderr
