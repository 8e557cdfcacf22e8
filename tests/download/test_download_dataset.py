"""The command download_dataset.py, run as a user runs it."""

import hashlib
import itertools
import json
import os
import random
import re

import pytest

from albert.download.download_dataset import main
from albert.tasks.race.examples import RaceProcessor
from tests.helpers.download import Fault, tar_of
from tests.helpers.files import contents
from tests.helpers.race import passage
from tests.helpers.running import assert_fails

TRAIN, DEV = "train-v1.1.json", "dev-v1.1.json"
FILES = {n: random.Random(n).randbytes(size) for n, size in [(TRAIN, 400_000), (DEV, 5_000)]}


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def squad(command, publish, server, data):
    server.files |= {f"mirror/{name}": content for name, content in FILES.items()}
    usual = ["squad", "--data_dir", data, "--base_url", f"{server.url}mirror"]

    def squad(*more, published=FILES):
        publish(published)
        return command(main, *usual, *more)

    return squad


def test_the_files_arrive_and_are_kept(squad, data, server):
    server.faults += [Fault(status=500), Fault(cut_after=123_456), Fault(status=429)]
    assert squad().returncode == 0
    assert contents(data) == FILES
    assert {r.path for r in server.requests} == {f"mirror/{name}" for name in FILES}
    assert sum(r.sent for r in server.requests) == sum(map(len, FILES.values()))
    before, requests = (data / DEV).stat(), len(server.requests)
    done = squad()
    assert done.returncode == 0 and done.stderr.count(", which has the published hash") == 2
    assert len(server.requests) == requests
    after = (data / DEV).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_force_only_replaces_wrong_files(squad, data, server):
    squad()
    (data / DEV).write_text("mine")
    (data / TRAIN).rename(data / "train")
    mine = hashlib.sha256(b"mine").hexdigest()
    assert_fails(squad(), 1, str(data / DEV), mine, "--force")
    assert len(server.requests) == 2
    (data / "train").rename(data / TRAIN)
    del server.files[f"mirror/{DEV}"]
    assert_fails(squad("--force"), 1, "HTTP 404")
    assert (data / DEV).read_text() == "mine"
    server.files[f"mirror/{DEV}"] = FILES[DEV]
    assert squad("--force").returncode == 0
    assert contents(data) == FILES
    assert [r.path for r in server.requests[2:]] == [f"mirror/{DEV}"] * 2


def test_an_unpublished_file_is_refused(squad, data, server):
    assert_fails(squad(published={}), 1, "announces 400000 bytes, expected 30288272")
    assert contents(data) == {}
    assert_fails(squad("--version", "2.0"), 1, "mirror/train-v2.0.json: HTTP 404")
    server.files[f"mirror/{DEV}"] = FILES[DEV][::-1]
    hashes = [hashlib.sha256(split).hexdigest() for split in (FILES[DEV], FILES[DEV][::-1])]
    assert_fails(squad(), 1, *hashes)
    assert list(contents(data)) == [TRAIN]


def test_a_path_in_the_way_is_one_line(squad, data):
    data.touch()
    assert_fails(squad(), 1, "data: File exists; check")
    data.unlink()
    (data / DEV).mkdir(parents=True)
    assert_fails(squad(), 1, f"{DEV}: Is a directory; check")
    (data / DEV).rmdir()
    (data / DEV).symlink_to("unmounted/dev")
    assert_fails(squad(), 1, f"{DEV}: No such file or directory; check")
    assert (data / DEV).is_symlink()


def test_wrong_arguments_end_with_code_2(command):
    usual = "squad --data_dir x"
    more = ["--version all", "--base_url ftp://host/", "--base_url address"]
    for wrong in "", "squad", "glue --data_dir x", *(f"{usual} {text}" for text in more):
        done = command(main, *wrong.split())
        assert done.returncode == 2 and "error: " in done.stderr.splitlines()[-1]
    for words in "--help", "squad --help", "race --help":
        done = command(main, *words.split())
        kind = words.split()[0] if " " in words else "squad"
        assert re.search(f"\n  download_dataset.py {kind} --.*data", done.stdout), "an example"


def race_archive(leave_out: str = "none") -> bytes:
    folders = itertools.product(("train", "dev", "test"), ("middle", "high"))
    names = [f"RACE/{split}/{level}/{n}.txt" for split, level in folders for n in (0, 1)]
    text = json.dumps(passage(0, "abc")).encode()
    return tar_of({name: text for name in names if leave_out not in name})


class TestRace:
    @pytest.fixture
    def race(self, command, server, data):
        server.files["RACE.tar.gz"] = race_archive()
        where = ["--data_dir", data, "--url", f"{server.url}RACE.tar.gz"]
        return lambda *more: command(main, "race", *where, *more)

    def test_the_downloaded_files_are_the_ones_that_are_read(self, race, data, server):
        assert race().returncode == 0
        assert os.listdir(data) == ["RACE"]
        processor = RaceProcessor(True, True, False, False)
        for split in ("train", "dev", "test"):
            assert len(getattr(processor, f"get_{split}_examples")(str(data))) == 8
        requests = len(server.requests)
        assert "which already exists" in race().stderr
        assert len(server.requests) == requests

    def test_another_archive_is_refused(self, race, data, server):
        assert_fails(race("--sha256", "0" * 64), 1, "expected " + "0" * 64)
        server.files["RACE.tar.gz"] = race_archive("dev/high")
        message = "is not RACE: it has no .txt file in dev/high"
        assert_fails(race(), 1, message, "check the address")
        assert os.listdir(data) == []
        (data / "RACE").mkdir()
        requests = len(server.requests)
        assert_fails(race(), 1, "is not RACE: it has no .txt file in train/middle")
        assert len(server.requests) == requests
