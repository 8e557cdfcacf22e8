"""Models by their names on the hub: the real client, and a server that answers as the hub does."""

import hashlib
import json
import os

import pytest

from albert.checkpoints.folder_contract import CONFIG, FILES, MODULES, OWN, POOLING
from albert.core.errors import UserError
from albert.download.named_model import is_hub_name, local_folder, pinned_name
from tests.helpers.download import Fault
from tests.helpers.running import albert, assert_fails, run

COMMIT = 40 * "a"
FILE, WEIGHTS = f"owner/model/resolve/{COMMIT}/", "model.safetensors"
NEEDED = {
    "config.json": b'{"model_type": "bert"}',
    "vocab.txt": b"[UNK]\n",
    "1_Pooling/config.json": b"{}",
    WEIGHTS: bytes(range(256)) * 400,
}
# Those that are read from a folder.
NEEDED |= {name: name.encode() for name in {MODULES, *FILES} - {CONFIG, POOLING, OWN}}
OTHERS = dict.fromkeys(("pytorch_model.bin", "onnx/model.onnx", "README.md", "tf_model.h5"), b"x")


@pytest.fixture
def publish(server, tmp_path):
    """Puts files into the repository `owner/model`; returns the environment of the hub's client."""

    def publish(files):
        about = {"id": "owner/model", "sha": COMMIT, "siblings": [{"rfilename": n} for n in files]}
        for revision in ("main", COMMIT):
            path = f"api/models/owner/model/revision/{revision}"
            server.files[path] = json.dumps(about).encode()
        for name, content in files.items():
            digest = hashlib.sha256(content).hexdigest()
            tag = digest if name == WEIGHTS else digest[:40]
            server.headers[FILE + name] = {"X-Repo-Commit": COMMIT, "ETag": f'"{tag}"'}
            server.files[FILE + name] = content
        hub = {"HF_ENDPOINT": server.url[:-1], "HF_HOME": f"{tmp_path}/cache", "HF_HUB_OFFLINE": ""}
        return {**os.environ, **hub}

    return publish


def test_the_needed_files_are_downloaded_once_and_found_offline(publish, server):
    environment = publish({**NEEDED, **OTHERS})
    first = run(albert("download", "owner/model@main"), env=environment)
    folder = first.stdout.strip()
    assert os.path.basename(folder) == COMMIT, first.stderr
    for name, content in NEEDED.items():
        with open(os.path.join(folder, name), "rb") as file:
            assert file.read() == content
    again = run(albert("download", "owner/model@main"), env=environment)
    offline = {**environment, "HF_HUB_OFFLINE": "1"}
    alone = run(albert("download", f"owner/model@{COMMIT}"), env=offline)
    assert again.stdout == alone.stdout == first.stdout
    got = [r.path for r in server.requests if r.method == "GET" and r.path.startswith(FILE)]
    assert sorted(got) == sorted(FILE + name for name in NEEDED)


NAMES = ("out/run--1", "out/my..model", "out/x.git", "out/model.", "out/.hidden", "out/-x")


@pytest.mark.parametrize("name", [*NAMES, "o/" + 300 * "a"])
def test_a_name_that_the_hub_does_not_allow_is_one_line(name):
    with pytest.raises(UserError, match="does not exist, and is not a name that the hub allows; "):
        local_folder(name)


def test_without_a_home_folder_the_variable_is_named(monkeypatch, tmp_path):
    for variable, name in (("ALBERT_CACHE", "albert_base_v2"), ("HF_HOME", "a/b")):
        monkeypatch.delenv("ALBERT_CACHE", raising=False)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", "~/.cache")
        monkeypatch.setattr(os.path, "expanduser", lambda path: path)
        with pytest.raises(UserError, match=f"there is no home folder; set {variable} to a folder"):
            local_folder(name)
        file = tmp_path / "file"
        file.touch()
        monkeypatch.setenv("ALBERT_CACHE", str(file))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(file))
        with pytest.raises(UserError, match=f"{file} is not a folder; set {variable} to a folder"):
            local_folder(name)


@pytest.mark.parametrize(
    ("files", "changed", "refusal", "message"),
    [
        ({"config.json": b"{}", **OTHERS}, {}, None, "no weights in safetensors, and "),
        (OTHERS, {}, None, "no config.json, so it is no model of transformers"),
        (NEEDED, {"HF_ENDPOINT": "http://127.0.0.1:9"}, None, "hub cannot be reached; download it"),
        (NEEDED, {"HF_HUB_OFFLINE": "1"}, None, "and the hub cannot be reached"),
        (NEEDED, {}, (401, "RepoNotFound"), "no model on the hub; for a private one, set HF_TOKEN"),
        (NEEDED, {}, (403, "GatedRepo"), "accept its conditions: do so at http://127"),
        (NEEDED, {}, (404, "RevisionNotFound"), "owner/model on the hub has no revision main"),
    ],
)
def test_what_is_missing_or_refused_is_one_line(publish, server, files, changed, refusal, message):
    environment = publish(files) | changed
    if refusal:
        status, name = refusal
        server.faults += 9 * [Fault(status=status, headers={"X-Error-Code": name})]
    assert_fails(run(albert("download", "owner/model@main"), env=environment), 1, message)


def test_a_download_that_is_cut_or_damaged_is_repeated(publish, server):
    environment, whole = publish(NEEDED), NEEDED[WEIGHTS]
    server.files[FILE + WEIGHTS] = whole[:100]
    server.headers[FILE + WEIGHTS]["Content-Length"] = str(len(whole))
    result = run(albert("download", "owner/model"), env=environment)
    assert_fails(result, 1, "); run again to resume")
    server.files[FILE + WEIGHTS] = whole[:-1] + b"!"
    result = run(albert("download", "owner/model"), env=environment)
    assert_fails(result, 1, "another SHA-256 than announced; download again")
    environment = publish(NEEDED)
    result = run(albert("download", "owner/model"), env=environment)
    assert result.returncode == 0, result.stderr


def test_names_on_the_hub_are_not_paths():
    for name in ("a/b", "google/bert_uncased_L-2_H-128_A-2", "a/b@v1.0", "a/b@refs/pr/1"):
        assert is_hub_name(name)
    for path in ("a", "/a/b", "./a", "../a", "a/b/c", "a/b/", "~/a", "a b/c"):
        assert not is_hub_name(path)
    assert pinned_name("a/b@main", "/cache/snapshots/abc") == "a/b@abc"
    assert pinned_name("albert_base_v2", "/cache/albert_base_v2") == "albert_base_v2"
