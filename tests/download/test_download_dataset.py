"""The command download_dataset.py, run as its users run it."""

import hashlib
import io
import json
import os
import random
import tarfile
from pathlib import Path

import pytest

from download.download_dataset import main
from race.examples import RaceProcessor
from tests.helpers.race import passage

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "download" / "download_dataset.py"
FILES = {
    name: random.Random(name).randbytes(length)
    for name, length in [("train-v1.1.json", 400_000), ("dev-v1.1.json", 5_000)]
}


@pytest.fixture
def arguments(server, tmp_path):
    server.files |= {f"mirror/{name}": content for name, content in FILES.items()}
    return ["squad", "--data_dir", tmp_path / "data", "--base_url", f"{server.url}mirror"]


@pytest.fixture
def squad(command, publish, arguments):
    def squad(*more):
        publish(FILES)
        return command(main, *arguments, *more)

    return squad


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def one_error_line(done, code=1):
    """Returns the error, which must be the one line that is not a log line."""
    assert done.returncode == code, done.stderr
    lines = [s for s in done.stderr.splitlines() if s.startswith("download_dataset.py: ")]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == lines[0]
    return lines[0]


def test_the_files_arrive(squad, tmp_path, server):
    done = squad()
    assert done.returncode == 0, done.stderr
    assert content(tmp_path / "data") == FILES
    assert [r.path for r in server.requests] == ["mirror/train-v1.1.json", "mirror/dev-v1.1.json"]


def test_right_files_are_kept_with_a_message(squad, tmp_path, server):
    squad()
    before = (tmp_path / "data" / "dev-v1.1.json").stat()
    done = squad()
    assert done.returncode == 0
    assert done.stderr.count("already there") == 2
    assert len(server.requests) == 2
    after = (tmp_path / "data" / "dev-v1.1.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_wrong_file_ends_it_before_anything_is_fetched(squad, tmp_path, server):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dev-v1.1.json").write_text("mine")
    line = one_error_line(squad())
    assert str(tmp_path / "data" / "dev-v1.1.json") in line
    assert hashlib.sha256(b"mine").hexdigest() in line
    assert "--force" in line
    assert content(tmp_path / "data") == {"dev-v1.1.json": b"mine"}
    assert server.requests == []


def test_force_replaces_what_is_wrong_and_nothing_else(squad, tmp_path, server):
    squad()
    (tmp_path / "data" / "dev-v1.1.json").write_text("mine")
    done = squad("--force")
    assert done.returncode == 0, done.stderr
    assert content(tmp_path / "data") == FILES
    assert [r.path for r in server.requests[2:]] == ["mirror/dev-v1.1.json"]


def test_force_keeps_the_old_file_until_the_new_one_is_whole(squad, tmp_path, server):
    squad()
    (tmp_path / "data" / "dev-v1.1.json").write_text("mine")
    del server.files["mirror/dev-v1.1.json"]
    one_error_line(squad("--force"))
    assert (tmp_path / "data" / "dev-v1.1.json").read_text() == "mine"


def test_faults_of_the_network_are_overcome(squad, tmp_path, server, fault):
    server.faults += [
        fault(status=500),
        fault(cut_after=123_456),
        fault(status=429, headers={"Retry-After": "0"}),
        fault(cut_after=100_000),
    ]
    done = squad()
    assert done.returncode == 0, done.stderr
    assert content(tmp_path / "data") == FILES
    assert sum(r.sent for r in server.requests) == sum(map(len, FILES.values()))


def test_a_missing_file_is_one_error_without_a_second_try(squad, tmp_path, server):
    del server.files["mirror/train-v1.1.json"]
    line = one_error_line(squad())
    assert f"error: {server.url}mirror/train-v1.1.json: HTTP 404" in line
    assert len(server.requests) == 1
    assert content(tmp_path / "data") == {}


def test_another_content_of_the_same_length_is_refused(squad, tmp_path, server):
    server.files["mirror/dev-v1.1.json"] = FILES["dev-v1.1.json"][::-1]
    line = one_error_line(squad())
    for part in (FILES["dev-v1.1.json"], FILES["dev-v1.1.json"][::-1]):
        assert hashlib.sha256(part).hexdigest() in line
    assert list(content(tmp_path / "data")) == ["train-v1.1.json"]


def test_the_real_command_refuses_what_was_not_published(command, arguments, tmp_path):
    line = one_error_line(command(main, *arguments))
    assert "announces 400000 bytes, expected 30288272" in line
    assert content(tmp_path / "data") == {}


def test_version_2_0_has_its_own_files(command, arguments, server):
    line = one_error_line(command(main, *arguments, "--version", "2.0"))
    assert "mirror/train-v2.0.json: HTTP 404" in line


def test_a_server_that_is_down_is_one_error_line(command, tmp_path, server):
    server.server_close()
    more = ["--data_dir", tmp_path, "--base_url", server.url]
    line = one_error_line(command(main, "squad", *more))
    assert "Connection refused; gave up after 6 tries" in line


def test_a_data_dir_that_is_a_file_is_one_error_line(command, arguments, tmp_path):
    (tmp_path / "data").touch()
    line = one_error_line(command(main, *arguments))
    assert f"{tmp_path / 'data'}: File exists; check" in line


def test_a_folder_under_a_files_name_is_one_error_line(command, arguments, tmp_path):
    (tmp_path / "data" / "dev-v1.1.json").mkdir(parents=True)
    line = one_error_line(command(main, *arguments))
    assert "dev-v1.1.json: Is a directory; check" in line


def test_a_link_to_nothing_is_not_replaced(command, arguments, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dev-v1.1.json").symlink_to("unmounted/dev-v1.1.json")
    line = one_error_line(command(main, *arguments))
    assert "dev-v1.1.json: No such file or directory; check" in line
    assert (tmp_path / "data" / "dev-v1.1.json").is_symlink()


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["squad"],
        ["squad", "--data_dir", "x", "--version", "all"],
        ["squad", "--data_dir", "x", "--version", "3.0"],
        ["squad", "--data_dir", "x", "--base_url", "ftp://host/"],
        ["squad", "--data_dir", "x", "--base_url", "no address"],
        ["glue", "--data_dir", "x"],
    ],
    ids=lambda wrong: " ".join(wrong[::2]) or "none",
)
def test_wrong_arguments_end_with_code_2(command, wrong):
    done = command(main, *wrong)
    assert done.returncode == 2
    assert "error: " in done.stderr.splitlines()[-1]


def test_the_script_passes_on_code_2(run, tmp_path):
    done = run(SCRIPT, "squad", cwd=tmp_path)
    assert done.returncode == 2
    assert "--data_dir" in done.stderr.splitlines()[-1]
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("arguments", [["--help"], ["squad", "--help"], ["race", "--help"]])
def test_help_has_an_example(command, arguments):
    done = command(main, *arguments)
    assert done.returncode == 0
    assert "download_dataset.py squad --version 1.1 --data_dir" in done.stdout


def race_archive(leave_out: str = "") -> bytes:
    """RACE as it is published: a file a passage."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for part in ("train", "dev", "test"):
            for level in ("middle", "high"):
                for number in range(2):
                    info = tarfile.TarInfo(f"RACE/{part}/{level}/{number}.txt")
                    text = json.dumps(passage(number, "abc")).encode()
                    info.size = len(text)
                    if not leave_out or leave_out not in info.name:
                        tar.addfile(info, io.BytesIO(text))
    return content.getvalue()


@pytest.fixture
def race(command, server, tmp_path):
    """Runs the command with the archive on a mirror."""
    server.files["RACE.tar.gz"] = race_archive()

    def race(*more):
        where = ["--data_dir", tmp_path / "data", "--url", f"{server.url}RACE.tar.gz"]
        return command(main, "race", *where, *more)

    return race


class TestRace:
    def test_what_arrives_is_what_is_read(self, race, tmp_path, server, fault):
        server.faults += [fault(cut_after=100), fault(status=500)]
        done = race()
        assert done.returncode == 0, done.stderr
        assert os.listdir(tmp_path / "data") == ["RACE"]
        processor = RaceProcessor(True, True, False, False)
        for read in (
            processor.get_train_examples,
            processor.get_dev_examples,
            processor.get_test_examples,
        ):
            assert len(read(str(tmp_path / "data"))) == 8
        requests = len(server.requests)
        assert "already there; kept" in race().stderr
        assert len(server.requests) == requests

    def test_an_archive_that_is_there(self, race, tmp_path, server):
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "RACE.tar.gz").write_bytes(race_archive())
        assert race().returncode == 0
        assert server.requests == []
        assert sorted(os.listdir(tmp_path / "data")) == ["RACE", "RACE.tar.gz"]

    def test_another_hash(self, race, tmp_path, server):
        right = hashlib.sha256(server.files["RACE.tar.gz"]).hexdigest()
        assert "expected " + "0" * 64 in one_error_line(race("--sha256", "0" * 64))
        assert not (tmp_path / "data" / "RACE").exists()
        done = race("--sha256", right)
        assert done.returncode == 0
        assert right in done.stderr

    @pytest.mark.parametrize(
        ("archive", "words"),
        [
            (race_archive("dev/high"), "not RACE, there is no .txt file in dev/high"),
            (race_archive()[:-100], "damaged"),
            (b"<html>moved</html>", "no archive"),
        ],
    )
    def test_an_archive_that_is_not_race(self, race, tmp_path, server, archive, words):
        server.files["RACE.tar.gz"] = archive
        line = one_error_line(race())
        assert words in line
        assert "check the address" in line
        assert os.listdir(tmp_path / "data") == []

    def test_a_folder_that_is_not_race(self, race, tmp_path, server):
        (tmp_path / "data" / "RACE").mkdir(parents=True)
        assert "not RACE, there is no .txt file in train/middle" in one_error_line(race())
        assert server.requests == []
