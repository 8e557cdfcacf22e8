"""`albert download` for models and data sets, against a local server."""

import hashlib
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys

import pytest

from albert.core.errors import FlagError, UserError
from albert.download import archive
from albert.download.command import main
from albert.download.pretrained import archive_address
from albert.download.published import MODELS
from tests.helpers.download import Fault, tar_of, zip_of
from tests.helpers.files import contents
from tests.helpers.forking import ROOT
from tests.helpers.running import assert_fails


def refused(message: str, *words: object) -> None:
    with pytest.raises(UserError, match=message):
        main([str(word) for word in words])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("squad", "the following arguments are required: --data_dir"),
        ("squad --data_dir x --version all", "invalid choice: 'all'"),
        ("squad --data_dir x --base_url ftp://host/", "'ftp://host/' is not an http or https addr"),
        ("race --data_dir x --sha256 0", "'0' is not a SHA-256 of 64 hexadecimal digits"),
        ("glue --tasks CoLA,SNLI", "unknown task 'snli'; use all, or some of CoLA, SST-2, QQP"),
        *((f"model {url} m", "not an http") for url in ("no_address", "file:///tmp/", "http://")),
        ("model http://me:secret@127.0.0.1:9/ m", "^(?!.*secret).*remove the user name"),
        ("albert_base_v2 --output_dir=x", "'--output_dir=x' is too much"),
    ],
)
def test_wrong_flags_are_refused(words, message):
    with pytest.raises(FlagError, match=message):
        main(words.split(" "))


@pytest.mark.parametrize(
    ("script", "needed"),
    [
        ("download_dataset.py squad", "--data_dir"),
        ("download_glue_data.py --tasks", "--tasks: expected one argument"),
        ("download_pretrained_model.py", "NAME"),
    ],
)
def test_the_scripts_of_the_reference_run_the_command(script, needed):
    name, *words = script.split()
    command = [sys.executable, f"{ROOT}/download/{name}", *words]
    result = subprocess.run(command, capture_output=True, text=True)
    assert_fails(result, 2, f"{name}: error: ", needed)


TRAIN, DEV = "train-v1.1.json", "dev-v1.1.json"
FILES = {n: random.Random(n).randbytes(size) for n, size in [(TRAIN, 400_000), (DEV, 5_000)]}


class TestSquad:
    @pytest.fixture
    def words(self, publish, server, tmp_path):
        server.files |= {f"mirror/{name}": content for name, content in FILES.items()}
        publish(FILES)
        return ["squad", f"--data_dir={tmp_path}", f"--base_url={server.url}mirror"]

    def test_the_files_arrive_and_are_kept(self, words, tmp_path, server, log):
        server.faults += [Fault(status=500), Fault(cut_after=123_456), Fault(status=429)]
        main(words)
        assert contents(tmp_path) == FILES
        assert {r.path for r in server.requests} == {f"mirror/{name}" for name in FILES}
        assert sum(r.sent for r in server.requests) == sum(map(len, FILES.values()))
        before, requests = (tmp_path / DEV).stat(), len(server.requests)
        log()
        main(words)
        kept = [f"Kept {tmp_path / name}, which has the published hash" for name in FILES]
        assert log() == kept and len(server.requests) == requests
        after = (tmp_path / DEV).stat()
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    def test_a_wrong_file_is_kept(self, words, tmp_path, server):
        (tmp_path / DEV).write_text("mine")
        mine = hashlib.sha256(b"mine").hexdigest()
        refused(f"{DEV} already exists with SHA-256 {mine}, expected .*; move it away", *words)
        assert server.requests == [] and contents(tmp_path) == {DEV: b"mine"}

    def test_a_path_in_the_way_is_one_line(self, words, tmp_path):
        (tmp_path / "file").touch()
        refused("file: File exists; check", *words, f"--data_dir={tmp_path / 'file'}")
        (tmp_path / DEV).mkdir()
        refused(f"{DEV}: Is a directory; check", *words)
        (tmp_path / DEV).rmdir()
        (tmp_path / DEV).symlink_to("unmounted/dev")
        refused(f"{DEV}: No such file or directory; check", *words)
        assert (tmp_path / DEV).is_symlink()


def race_archive(leave_out: str = "none") -> bytes:
    folders = itertools.product(("train", "dev", "test"), ("middle", "high"))
    names = [f"RACE/{split}/{level}/{n}.txt" for split, level in folders for n in (0, 1)]
    return tar_of({name: b"{}" for name in names if leave_out not in name})


def test_race_is_unpacked_if_it_is_race(server, tmp_path):
    words = ["race", f"--data_dir={tmp_path}", f"--url={server.url}RACE.tar.gz"]
    server.files["RACE.tar.gz"] = race_archive("dev/high")
    refused(r"it has no dev/high/\*.txt; removed it; check the address", *words)
    assert os.listdir(tmp_path) == []
    server.files["RACE.tar.gz"] = race_archive()
    refused(f"expected {'0' * 64}", *words, "--sha256", "0" * 64)
    main(words)
    assert os.listdir(tmp_path) == ["RACE"]
    assert {*contents(tmp_path).values()} == {b"{}"} and len(contents(tmp_path)) == 12
    main(words)
    assert len(server.requests) == 3


class TestGlue:
    @pytest.fixture
    def words(self, publish, server, tmp_path):
        names = "train.tsv", "dev.tsv", "test.tsv", "original/raw/in_domain.tsv"
        files = {"AX.tsv": b"index\tsentence1\tsentence2\n"}
        for task in ("CoLA", "SST-2"):
            files[f"{task}.zip"] = zip_of({f"{task}/{name}": f"{task} {name}" for name in names})
        server.files |= {f"mirror/{name}": content for name, content in files.items()}
        publish(files)
        return ["glue", f"--data_dir={tmp_path}", f"--base_url={server.url}mirror", "--tasks"]

    def test_folders_are_those_that_the_processors_read(self, words, tmp_path, server):
        main([*words, "COLA, sst-2 ,SST,diagnostic"])
        splits = "train", "dev", "test"
        folders = {f"{task}/{split}.tsv" for task in ("CoLA", "SST-2") for split in splits}
        assert contents(tmp_path).keys() == {*folders, "diagnostic/diagnostic.tsv"}
        assert (tmp_path / "SST-2" / "dev.tsv").read_text() == "SST-2 dev.tsv"
        # Each is kept if it is complete.
        requests = len(server.requests)
        (tmp_path / "CoLA" / "dev.tsv").write_text("mine")
        main([*words, "CoLA"])
        assert (tmp_path / "CoLA" / "dev.tsv").read_text() == "mine"
        (tmp_path / "CoLA" / "dev.tsv").unlink()
        refused("CoLA exists but has no dev.tsv; move it away", *words, "CoLA")
        assert len(server.requests) == requests


NAME = "albert_test_v2"
MODEL = {
    "albert_config.json": b"{}",
    "30k-clean.model": random.Random(4).randbytes(3_000),
    "model.ckpt-best.index": b"index",
    "model.ckpt-best.data-00000-of-00001": random.Random(5).randbytes(500_000),
}
ARCHIVE = tar_of({f"albert_test/{name}": content for name, content in MODEL.items()})
SHA256 = hashlib.sha256(ARCHIVE).hexdigest()
ZIPPED = zip_of({f"uncased/{name}": content for name, content in MODEL.items()})
PARTS = {
    "checkpoint (*.index)": "m.index",
    "weights (*.data-?????-of-?????)": "m.data-00000-of-00002",
    "configuration (*config.json)": "bert_config.json",
    "vocabulary (*.model or vocab*.txt)": "vocab.txt",
}


class TestModel:
    @pytest.fixture
    def words(self, server, tmp_path):
        server.files[f"albert_models/{NAME}.tar.gz"] = ARCHIVE
        return ["model", f"{server.url}albert_models/", NAME, f"--output_dir={tmp_path}"]

    def check(self, folder):
        assert os.listdir(folder) == [NAME]
        files = contents(folder / NAME)
        made_from = json.loads(files.pop(".download.json"))["sha256"]
        assert made_from in (SHA256, hashlib.sha256(ZIPPED).hexdigest())
        assert files == MODEL

    def test_the_archive_becomes_the_folder_which_is_kept(self, words, tmp_path, server, log):
        """Also in place of an empty folder, and from the address of a zip file."""
        server.files["small.zip"] = ZIPPED
        main(["model", f"{server.url}small.zip", *words[2:]])
        self.check(tmp_path)
        shutil.rmtree(tmp_path / NAME)
        server.requests.clear()
        (tmp_path / NAME).mkdir()
        main(words)
        self.check(tmp_path)
        assert f"{tmp_path / NAME} is ready; SHA-256 of the archive: {SHA256}" in log()
        (tmp_path / NAME / "albert_config.json").write_text("edited")
        main(words)
        assert log() == [f"Kept {tmp_path / NAME}, which already exists"]
        assert (tmp_path / NAME / "albert_config.json").read_text() == "edited"
        assert [r.path for r in server.requests] == [f"albert_models/{NAME}.tar.gz"]

    def test_an_existing_folder_must_be_complete(self, words, tmp_path, server):
        folder = tmp_path / NAME
        folder.mkdir()
        (folder / "notes").touch()
        for part, name in PARTS.items():
            refused(re.escape(f"{folder} exists but has no {part}; move it away"), *words)
            (folder / name).touch()
        main(words)
        assert server.requests == [] and {*os.listdir(folder)} == {"notes", *PARTS.values()}

    def test_an_archive_placed_by_hand_is_used_and_kept(self, words, tmp_path, server):
        archive = tmp_path / f"{NAME}.tar.gz"
        archive.write_bytes(ARCHIVE[:-9])
        refused(f"{archive}: .*; remove it and run again", *words)
        archive.write_bytes(ARCHIVE)
        wrong = f"{archive.name}: SHA-256 is {SHA256}, expected {'0' * 64}; move the file away"
        refused(wrong, *words, "--sha256", "0" * 64)
        assert os.listdir(tmp_path) == [archive.name]
        main(words)
        assert archive.read_bytes() == ARCHIVE and server.requests == []
        archive.unlink()
        self.check(tmp_path)

    def test_an_archive_without_a_model_leaves_nothing(self, words, tmp_path, server):
        name, damaged = f"albert_models/{NAME}.tar.gz", ARCHIVE[: len(ARCHIVE) // 2]
        for content, problem in (
            (damaged, "damaged"),
            (tar_of({"t/vocab.txt": b""}), r"it has no checkpoint \("),
        ):
            server.files[name] = content
            refused(f"{problem}.*check the address {server.url}{name}", *words)
            assert os.listdir(tmp_path) == []

    def test_the_hash_is_checked(self, words, tmp_path, server):
        refused(f"is {SHA256}, expected {'0' * 64}", *words, "--sha256", "0" * 64)
        assert os.listdir(tmp_path) == []
        for text in (SHA256.upper(), SHA256):
            main([*words, "--sha256", text])
        other = f"is not from the archive with SHA-256 {'0' * 64}"
        refused(other, *words, "--sha256", "0" * 64)
        (tmp_path / NAME / ".download.json").unlink()
        refused("is not from the archive", *words, "--sha256", SHA256)
        assert len(server.requests) == 2

    def test_an_archive_over_the_limit_is_kept(self, words, tmp_path, monkeypatch):
        monkeypatch.setattr(archive, "_MOST_BYTES", 500_000)
        refused("unpacks to more than 0.0005 GB; if you trust it, unpack it by hand", *words)
        assert os.listdir(tmp_path) == [f"{NAME}.tar.gz"]

    def test_two_at_once_make_one_whole_folder(self, words, tmp_path, server):
        server.faults += [Fault(hold_after=100_000)]
        program = [sys.executable, "-m", "albert", "download", *words]
        children = [
            subprocess.Popen(program, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(2)
        ]
        # One of them says that it waits, the other that it fetches.
        while not any("Waiting" in child.stderr.readline() for child in children):
            pass
        server.release.set()
        for child in children:
            _, errors = child.communicate()
            assert child.returncode == 0, errors
        self.check(tmp_path)


def test_the_address_follows_from_the_name():
    folders = ["http://h/m/", "http://h/m"]
    assert [archive_address(url, "name") for url in folders] == ["http://h/m/name.tar.gz"] * 2
    files = [f"http://h/m/other.{kind}" for kind in ("tar.gz", "tgz", "zip")]
    assert [archive_address(url, "name") for url in files] == files
    bucket = "https://storage.googleapis.com/"
    assert archive_address(None, "albert_base_v2") == f"{bucket}albert_models/albert_base_v2.tar.gz"
    chinese = archive_address(None, "bert_base_chinese")
    assert chinese == f"{bucket}bert_models/2018_11_03/chinese_L-12_H-768_A-12.zip"
    for name in ("my_albert", "https://h/my_albert.zip"):
        refused(f"{name} is unknown; pass its URL", "model", name)
    sizes = {path.stem for path in (ROOT / "configs").glob("*bert_*.json")}
    assert {name for name in MODELS if not name.endswith("zh")} == sizes
