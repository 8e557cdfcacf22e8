"""The command download_pretrained_model.py, run as a user runs it."""

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from unittest import mock

import pytest
import requests

from albert.download.download_pretrained_model import archive_address, main
from albert.download.published import MODELS
from tests.helpers.download import Fault, tar_of, zip_of
from tests.helpers.forking import ROOT
from tests.helpers.running import assert_fails

SCRIPT = ROOT / "download" / "download_pretrained_model.py"
NAME = "albert_test_v2"
FILES = {
    "albert_config.json": b"{}",
    "30k-clean.model": random.Random(4).randbytes(3_000),
    "model.ckpt-best.index": b"index",
    "model.ckpt-best.data-00000-of-00001": random.Random(5).randbytes(500_000),
}


def packed(files):
    return tar_of({f"albert_test/{name}": content for name, content in files.items()})


ARCHIVE = packed(FILES)
SHA256 = hashlib.sha256(ARCHIVE).hexdigest()


@pytest.fixture
def out(tmp_path):
    return tmp_path / "models"


@pytest.fixture
def arguments(server, out):
    server.files[f"albert_models/{NAME}.tar.gz"] = ARCHIVE
    return [f"{server.url}albert_models/", NAME, "--output_dir", out]


@pytest.fixture
def download(command, arguments):
    return lambda *more: command(main, *arguments, *more)


def assert_ready(done, out):
    assert done.returncode == 0, done.stderr
    files = {path.name: path.read_bytes() for path in (out / NAME).iterdir()}
    assert {name: content for name, content in files.items() if name[0] != "."} == FILES


def test_the_archive_becomes_the_folder_which_is_kept(command, download, out, server):
    """A complete address may be that of a zip file, as of Google's BERTs."""
    server.files["small.zip"] = zip_of({f"uncased/{name}": text for name, text in FILES.items()})
    assert_ready(command(main, f"{server.url}small.zip", NAME, "--output_dir", out), out)
    shutil.rmtree(out / NAME)
    server.requests.clear()
    (out / NAME).mkdir()
    done = download()
    assert_ready(done, out)
    assert os.listdir(out) == [NAME]
    assert f"{NAME} is ready; SHA-256 of the archive: {SHA256}" in done.stderr
    assert json.loads((out / NAME / ".download.json").read_text())["sha256"] == SHA256
    (out / NAME / "albert_config.json").write_text("edited")
    done = download()
    assert done.returncode == 0 and f"Kept {out / NAME}, which already exists" in done.stderr
    assert (out / NAME / "albert_config.json").read_text() == "edited"
    assert [r.path for r in server.requests] == [f"albert_models/{NAME}.tar.gz"]


def test_the_address_follows_from_the_name():
    folders = ["http://h/m/", "http://h/m"]
    assert [archive_address(url, "name") for url in folders] == ["http://h/m/name.tar.gz"] * 2
    files = [f"http://h/m/other.{kind}" for kind in ("tar.gz", "tgz", "zip")]
    assert [archive_address(url, "name") for url in files] == files
    bucket = "https://storage.googleapis.com/"
    assert archive_address(None, "albert_base_v2") == f"{bucket}albert_models/albert_base_v2.tar.gz"
    chinese = archive_address(None, "bert_base_chinese")
    assert chinese == f"{bucket}bert_models/2018_11_03/chinese_L-12_H-768_A-12.zip"
    sizes = {path.stem for path in (ROOT / "configs").glob("*bert_*.json")}
    assert {name for name in MODELS if not name.endswith("zh")} == sizes


WHOLE = ("m.index", "m.data-00000-of-00002", "bert_config.json", "vocab.txt")


@pytest.mark.parametrize(
    ("present", "missing"),
    [
        (WHOLE, None),
        (WHOLE[2:], "checkpoint"),
        (WHOLE[:1], "weights"),
        (WHOLE[:2], "configuration (*config.json)"),
        (WHOLE[:3], "vocabulary (*.model or vocab*.txt); move it away"),
    ],
)
def test_an_existing_folder_stays_and_must_be_complete(download, out, server, present, missing):
    (out / NAME).mkdir(parents=True)
    for name in present:
        (out / NAME / name).touch()
    done = download()
    if missing:
        assert_fails(done, 1, f"{out / NAME} exists but has no {missing}")
    assert (done.returncode == 1) == bool(missing) and server.requests == []
    assert sorted(os.listdir(out / NAME)) == sorted(present)


def test_an_archive_placed_by_hand_is_used_and_kept(download, out, server):
    archive = out / f"{NAME}.tar.gz"
    out.mkdir()
    archive.write_bytes(ARCHIVE[:-9])
    assert_fails(download(), 1, str(archive), "remove it and run again")
    assert os.listdir(out) == [archive.name]
    archive.write_bytes(ARCHIVE)
    wrong = f"{archive.name}: SHA-256 is {SHA256}, expected {'0' * 64}; move the file away"
    assert_fails(download("--sha256", "0" * 64), 1, wrong)
    assert os.listdir(out) == [archive.name]
    assert_ready(download(), out)
    assert archive.read_bytes() == ARCHIVE and server.requests == []


def test_an_archive_without_a_model_leaves_nothing(download, out, server):
    name, damaged = f"albert_models/{NAME}.tar.gz", ARCHIVE[: len(ARCHIVE) // 2]
    other = packed({"vocab.txt": b""})
    for content, problem in ((damaged, "damaged"), (other, "not a model: it has no checkpoint (")):
        server.files[name] = content
        assert_fails(download(), 1, problem, f"check the address {server.url}{name}")
        assert os.listdir(out) == [] and os.listdir(out.parent) == ["models"]


def test_the_hash_is_checked(download, out, server):
    assert_fails(download("--sha256", "0" * 64), 1, f"is {SHA256}, expected {'0' * 64}")
    assert os.listdir(out) == []
    for text in (SHA256.upper(), SHA256):
        assert download("--sha256", text).returncode == 0
    other = f"is not from the archive with SHA-256 {'0' * 64}"
    assert_fails(download("--sha256", "0" * 64), 1, other)
    (out / NAME / ".download.json").unlink()
    assert_fails(download("--sha256", SHA256), 1, "is not from the archive")
    assert len(server.requests) == 2


def test_an_archive_over_the_limit_is_kept_for_the_next_try(download, out, server):
    assert_fails(download("--max_unpacked_gb", "0.0005"), 1, "unpacks to more than 0.0005 GB")
    assert_ready(download("--max_unpacked_gb", "0.001"), out)
    assert len(server.requests) == 1


def test_a_servers_words_cannot_control_the_terminal(download, server):
    server.faults += [Fault(status=503, reason="\x1b]0;owned\x07\x1b[31mred\x9b")]
    server.faults += [Fault(status=404, reason="\x1b[2Jgone\x9c")]
    done = download()
    assert_fails(done, 1, "HTTP 404; check the address")
    assert "HTTP 503; trying again" in done.stderr
    assert all(c.isprintable() for c in done.stderr.replace("\n", ""))


def test_an_interruption_is_one_line(download, out, monkeypatch):
    monkeypatch.setattr(requests, "get", mock.Mock(side_effect=KeyboardInterrupt))
    done = download()
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == f"{SCRIPT.name}: interrupted; the same command resumes\n"
    assert not (out / NAME).exists()


def test_two_at_once_make_one_whole_folder(arguments, out, server):
    server.faults += [Fault(hold_after=100_000)]
    program = [sys.executable, str(SCRIPT), *map(str, arguments)]
    children = [subprocess.Popen(program, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    # One of them says that it waits, the other that it fetches.
    while not any("Waiting" in child.stderr.readline() for child in children):
        pass
    server.release.set()
    for child in children:
        child.communicate()
        assert_ready(child, out)
    assert os.listdir(out) == [NAME]


def test_bad_arguments_are_refused(command, out):
    for url in "no_address", "file:///tmp/", "http://", "http://me:secret@127.0.0.1:9/":
        done = command(main, url, NAME)
        assert done.returncode == 2 and "error: " in done.stderr.splitlines()[-1]
        assert "secret" not in done.stdout + done.stderr
    for name in ("", ".", "..", "../up", "a/b", "/abs", "a\\b", "a..b", ".hidden", "a b", "a\nb"):
        done = command(main, "http://h/", name)
        assert done.returncode == 2 and "is not a simple name" in done.stderr, name
    for limit in ("nan", "0", "-1", "much"):
        done = command(main, "http://h/", NAME, "--max_unpacked_gb", limit)
        assert_fails(done, 2, f"--max_unpacked_gb: {limit!r} is not a positive number")
    done = command(main, "my_albert", "--output_dir", out)
    assert_fails(done, 1, "my_albert is unknown; pass its URL")
    done = command(main, "--help")
    assert done.returncode == 0 and f"{SCRIPT.name} albert_base_v2" in done.stdout
    # As in the fork: NAME/ is next to download/.
    assert "of the new folder NAME (default: .)" in " ".join(done.stdout.split())
