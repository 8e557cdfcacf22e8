"""The command download_pretrained_model.py, run as its users run it."""

import hashlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from download.download_pretrained_model import archive_address, main
from download.published import MODELS

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "download" / "download_pretrained_model.py"
NAME = "albert_test_v2"
FILES = {
    "albert_config.json": b"{}",
    "30k-clean.model": random.Random(4).randbytes(3_000),
    "model.ckpt-best.index": b"index",
    "model.ckpt-best.data-00000-of-00001": random.Random(5).randbytes(500_000),
}


def packed(files, top="albert_test"):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


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


def visible(folder):
    """Returns the files that a user sees, by name."""
    return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.startswith(".")}


def one_error_line(done, code=1):
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith("download_pretrained_model.py: ")
    return line


def test_the_archive_becomes_the_folder(download, out, server):
    done = download()
    assert done.returncode == 0, done.stderr
    assert os.listdir(out) == [NAME]
    assert visible(out / NAME) == FILES
    assert [r.path for r in server.requests] == [f"albert_models/{NAME}.tar.gz"]


def test_the_default_place_is_beside_the_project_files(run, server, tmp_path):
    """As in the fork: NAME/ lies in the parent of download/."""
    shutil.copytree(ROOT / "download", tmp_path / "project" / "download")
    (tmp_path / "project" / "runtime").symlink_to(ROOT / "runtime")
    server.files[f"{NAME}.tar.gz"] = ARCHIVE
    script = tmp_path / "project" / "download" / SCRIPT.name
    assert run(script, server.url, NAME, cwd=tmp_path).returncode == 0
    assert visible(tmp_path / "project" / NAME) == FILES


def test_the_module_can_be_run_too(run, arguments, out):
    done = run("-m", "download.download_pretrained_model", *arguments)
    assert done.returncode == 0, done.stderr
    assert visible(out / NAME) == FILES


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://h/m/", "http://h/m/name.tar.gz"),
        ("http://h/m", "http://h/m/name.tar.gz"),
        ("http://h/m/other.tar.gz", "http://h/m/other.tar.gz"),
        ("http://h/m/other.tgz", "http://h/m/other.tgz"),
        ("http://h/m/other.zip", "http://h/m/other.zip"),
    ],
)
def test_the_address(url, address):
    assert archive_address(url, "name") == address


def test_googles_models_are_known_by_name():
    """By those of the files of their sizes, but for Chinese ALBERTs."""
    bucket = "https://storage.googleapis.com/"
    assert archive_address(None, "albert_base_v2") == f"{bucket}albert_models/albert_base_v2.tar.gz"
    chinese = archive_address(None, "bert_base_chinese")
    assert chinese == f"{bucket}bert_models/2018_11_03/chinese_L-12_H-768_A-12.zip"
    sizes = {path.stem for path in (ROOT / "configs").glob("*bert_*.json")}
    assert {name for name in MODELS if not name.endswith("zh")} == sizes


def test_a_name_that_is_not_known(command, out):
    done = command(main, "my_albert", "--output_dir", out)
    assert "my_albert is not known without a URL" in one_error_line(done)


def test_a_zip(command, server, out):
    """As Google's BERTs are; it may lie there already."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name, text in FILES.items():
            file.writestr(f"uncased_L-2/{name}", text)
    server.files["small.zip"] = content.getvalue()
    done = command(main, f"{server.url}small.zip", NAME, "--output_dir", out)
    assert done.returncode == 0, done.stderr
    assert visible(out / NAME) == FILES
    assert os.listdir(out) == [NAME]


def test_a_whole_address_is_taken_as_it_is(command, server, out):
    server.files["elsewhere/some.tgz"] = ARCHIVE
    done = command(main, f"{server.url}elsewhere/some.tgz", NAME, "--output_dir", out)
    assert done.returncode == 0, done.stderr
    assert visible(out / NAME) == FILES


def test_a_complete_folder_is_kept(download, out, server):
    download()
    (out / NAME / "albert_config.json").write_text("edited")
    done = download()
    assert done.returncode == 0
    assert f"{out / NAME}: already there" in done.stderr
    assert (out / NAME / "albert_config.json").read_text() == "edited"
    assert len(server.requests) == 1


def test_a_complete_folder_from_elsewhere_is_kept(download, out, server):
    (out / NAME).mkdir(parents=True)
    for name in ("m.index", "m.data-00000-of-00002", "bert_config.json", "vocab.txt"):
        (out / NAME / name).touch()
    assert download().returncode == 0
    assert server.requests == []


@pytest.mark.parametrize(
    ("present", "missing"),
    [
        (["albert_config.json"], "checkpoint"),
        (["m.index"], "weights"),
        (["m.data-00000-of-00001"], "checkpoint"),
        (["m.index", "m.data-00000-of-00001"], "configuration"),
    ],
)
def test_half_a_folder_from_elsewhere_is_an_error(download, out, present, missing):
    (out / NAME).mkdir(parents=True)
    for name in present:
        (out / NAME / name).touch()
    assert f"{out / NAME}: is there without {missing}" in one_error_line(download())
    assert sorted(os.listdir(out / NAME)) == sorted(present)


def test_a_folder_that_lost_a_file_is_an_error(download, out):
    download()
    (out / NAME / "30k-clean.model").unlink()
    line = one_error_line(download())
    assert "without vocabulary (*.model or vocab*.txt); move it away" in line


def test_an_empty_folder_is_filled(download, out):
    (out / NAME).mkdir(parents=True)
    assert download().returncode == 0
    assert visible(out / NAME) == FILES


def test_a_file_in_the_way_is_an_error(download, out):
    out.mkdir()
    (out / NAME).write_text("mine")
    assert f"{out / NAME}: Not a directory; check" in one_error_line(download())
    assert (out / NAME).read_text() == "mine"


def test_an_archive_put_there_by_hand_is_unpacked_and_kept(download, out, server):
    out.mkdir()
    (out / f"{NAME}.tar.gz").write_bytes(ARCHIVE)
    done = download()
    assert done.returncode == 0, done.stderr
    assert server.requests == []
    assert visible(out / NAME) == FILES
    assert (out / f"{NAME}.tar.gz").read_bytes() == ARCHIVE


def test_a_damaged_archive_put_there_by_hand_is_named_and_kept(download, out):
    out.mkdir()
    (out / f"{NAME}.tar.gz").write_bytes(ARCHIVE[:-9])
    line = one_error_line(download())
    assert f"{out / NAME}.tar.gz" in line
    assert "remove it and run again" in line
    assert os.listdir(out) == [f"{NAME}.tar.gz"]


def evil():
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("top/good"))
        tar.addfile(tarfile.TarInfo("top/../../../evil"))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (ARCHIVE[: len(ARCHIVE) // 2], "damaged"),
        (b"<html>log in</html>", "no archive"),
        (evil(), "would be extracted to"),
    ],
    ids=["truncated", "page", "evil"],
)
def test_what_cannot_be_unpacked_leaves_nothing(download, out, server, tmp_path, content, problem):
    server.files[f"albert_models/{NAME}.tar.gz"] = content
    line = one_error_line(download())
    assert problem in line
    assert f"check the address {server.url}albert_models/{NAME}.tar.gz" in line
    assert os.listdir(out) == []
    assert os.listdir(tmp_path) == ["models"]


@pytest.mark.parametrize(
    ("without", "problem"),
    [
        ("albert_config.json", "no configuration (*config.json)"),
        ("30k-clean.model", "no vocabulary (*.model or vocab*.txt)"),
        ("model.ckpt-best.index", "no checkpoint (*.index)"),
        ("model.ckpt-best.data-00000-of-00001", "no weights (*.data-"),
    ],
)
def test_an_archive_without_a_whole_model_is_an_error(download, out, server, without, problem):
    files = {name: content for name, content in FILES.items() if name != without}
    server.files[f"albert_models/{NAME}.tar.gz"] = packed(files)
    assert problem in one_error_line(download())
    assert os.listdir(out) == []


def test_the_hash_is_shown_and_kept(download, out):
    done = download()
    assert f"{NAME}: ready; SHA-256 of the archive: {SHA256}" in done.stderr
    assert json.loads((out / NAME / ".download.json").read_text())["sha256"] == SHA256


def test_the_hash_is_checked(download, out, server):
    line = one_error_line(download("--sha256", "0" * 64))
    assert f"SHA-256 is {SHA256}, expected {'0' * 64}" in line
    assert os.listdir(out) == []
    done = download("--sha256", SHA256.upper())
    assert done.returncode == 0 and SHA256 in done.stderr
    # Of a folder that is there too.
    assert download("--sha256", SHA256).returncode == 0
    line = one_error_line(download("--sha256", "0" * 64))
    assert f"from another archive than that with SHA-256 {'0' * 64}" in line
    (out / NAME / ".download.json").unlink()
    assert "from another archive" in one_error_line(download("--sha256", SHA256))
    assert len(server.requests) == 2


def test_the_hash_of_an_archive_put_there_by_hand_is_checked(download, out):
    out.mkdir()
    (out / f"{NAME}.tar.gz").write_bytes(ARCHIVE)
    line = one_error_line(download("--sha256", "0" * 64))
    assert f"{NAME}.tar.gz: SHA-256 is {SHA256}, expected {'0' * 64}; move it away" in line
    assert os.listdir(out) == [f"{NAME}.tar.gz"]


def test_a_large_archive_is_kept_for_the_next_try(download, out, server):
    line = one_error_line(download("--max_unpacked_gb", "0.0005"))
    assert "unpacks to more than 0.0005 GB" in line
    done = download("--max_unpacked_gb", "0.001")
    assert done.returncode == 0, done.stderr
    assert visible(out / NAME) == FILES
    assert len(server.requests) == 1


def test_what_a_server_says_does_not_act_on_the_terminal(download, server, fault):
    server.faults += [fault(status=503, reason="\x1b]0;owned\x07\x1b[31mred\x9b")]
    server.faults += [fault(status=404, reason="\x1b[2Jgone\x9c")]
    done = download()
    assert "HTTP 404; check the address" in one_error_line(done)
    assert "HTTP 503; trying again" in done.stderr
    assert all(c.isprintable() for c in done.stderr.replace("\n", ""))


def test_a_password_is_not_shown(command):
    done = command(main, "http://me:secret@127.0.0.1:9/", NAME)
    assert done.returncode == 2
    assert "secret" not in done.stdout + done.stderr


def test_a_model_that_is_not_there_is_one_error(download, out, server):
    server.files.clear()
    assert f"/albert_models/{NAME}.tar.gz: HTTP 404" in one_error_line(download())
    assert os.listdir(out) == []
    assert len(server.requests) == 1


def test_killed_while_fetching_the_same_command_goes_on(
    download, start, arguments, out, server, fault, wait_for_bytes
):
    server.faults += [fault(hold_after=300_000)]
    child = start(SCRIPT, *arguments)
    part = out / f"{NAME}.tar.gz.part"
    wait_for_bytes(part, 250_000)
    child.kill()
    assert child.wait(10) == -signal.SIGKILL
    assert sorted(os.listdir(out)) == [f"{NAME}.lock", part.name, f"{part.name}.json"]
    had = part.stat().st_size
    done = download()
    assert done.returncode == 0, done.stderr
    assert [r.range for r in server.requests] == [None, f"bytes={had}-"]
    assert server.requests[1].sent == len(ARCHIVE) - had
    assert os.listdir(out) == [NAME]
    assert visible(out / NAME) == FILES


def test_interrupted_it_says_so_in_one_line(start, arguments, out, server, fault, wait_for_bytes):
    server.faults += [fault(hold_after=300_000)]
    child = start(SCRIPT, *arguments)
    wait_for_bytes(out / f"{NAME}.tar.gz.part", 250_000)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=10)
    done = subprocess.CompletedProcess(child.args, child.returncode, "", err)
    assert "interrupted" in one_error_line(done, code=130)
    assert not (out / NAME).exists()


def test_two_at_once_make_one_whole_folder(start, arguments, out, server, fault):
    server.faults += [fault(hold_after=100_000)]
    children = [start(SCRIPT, *arguments) for _ in range(2)]
    waiting = None
    while waiting is None:
        for child in children:
            line = child.stderr.readline()
            if "waiting" in line:
                waiting = child
                break
    server.release.set()
    for child in children:
        _, err = child.communicate(timeout=10)
        assert child.returncode == 0, err
    assert os.listdir(out) == [NAME]
    assert visible(out / NAME) == FILES


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../up", "a/b", "/abs", "a\\b", "a..b", ".hidden", "a b", "a\nb"]
)
def test_a_name_that_is_not_simple_ends_with_code_2(command, name):
    done = command(main, "http://127.0.0.1:9/", name)
    assert done.returncode == 2
    assert "is not a simple name" in done.stderr


@pytest.mark.parametrize(
    "wrong",
    [[], ["http://127.0.0.1:9/"], ["no_address", NAME], ["file:///tmp/", NAME], ["http://", NAME]],
)
def test_wrong_arguments_end_with_code_2(command, wrong):
    done = command(main, *wrong)
    assert done.returncode == 2
    assert "error: " in done.stderr.splitlines()[-1]


def test_help_has_an_example(run):
    done = run(SCRIPT, "--help")
    assert done.returncode == 0
    assert "download_pretrained_model.py albert_base_v2" in done.stdout
