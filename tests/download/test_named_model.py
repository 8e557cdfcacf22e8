"""Models by their names on the hub: the real client, and a server that answers as the hub does."""

import hashlib
import http.server
import json
import os
import threading

import pytest

from albert.checkpoints.folder_contract import CONFIG, FILES, MODULES, OWN, POOLING
from albert.core.errors import UserError
from albert.download.named_model import is_hub_name, local_folder, pinned_name
from tests.helpers.running import albert, assert_fails, run

COMMIT = 40 * "a"
NEEDED = {
    "config.json": b'{"model_type": "bert"}',
    "vocab.txt": b"[UNK]\n",
    "1_Pooling/config.json": b"{}",
    "model.safetensors": bytes(range(256)) * 400,
}
# Those that are read from a folder.
NEEDED |= {name: name.encode() for name in {MODULES, *FILES} - {CONFIG, POOLING, OWN}}
OTHERS = {
    "pytorch_model.bin": b"x",
    "onnx/model.onnx": b"x",
    "README.md": b"x",
    "tf_model.h5": b"x",
}


class Hub(http.server.ThreadingHTTPServer):
    """A server with one repository, `owner/model`, and one fault."""

    def __init__(self, files, fault=""):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.fault, self.fetched = files, fault, []


class Handler(http.server.BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *args):
        pass

    def answer(self, status, headers, body=b""):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def do_GET(self):
        fault, rest = self.server.fault, self.path.split("/", 4)[-1]
        if fault in ("401 RepoNotFound", "403 GatedRepo", "404 RevisionNotFound"):
            status, code = fault.split()
            self.answer(int(status), {"X-Error-Code": code})
        elif self.path.startswith("/api/models/owner/model/revision/"):
            names = [{"rfilename": name} for name in self.server.files]
            body = json.dumps({"id": "owner/model", "sha": COMMIT, "siblings": names}).encode()
            self.answer(200, {"Content-Type": "application/json"}, body)
        else:
            name = rest.removeprefix(f"{COMMIT}/")
            content = self.server.files[name]
            digest = hashlib.sha256(content).hexdigest()
            tag = digest if name.endswith("safetensors") else digest[:40]
            headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{tag}"', "Content-Length": len(content)}
            if self.command == "GET":
                self.server.fetched.append(name)
                if name.endswith("safetensors") and fault == "damaged":
                    content = content[:-1] + b"!"
                self.close_connection = True
                content = content[:100] if fault == "cut" else content
            self.answer(200, headers, content)

    do_HEAD = do_GET


@pytest.fixture
def serve(tmp_path):
    """Starts a hub; returns the environment in which the client uses it, and the hub."""
    servers = []

    def start(files, fault=""):
        servers.append(Hub(files, fault))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{servers[-1].server_port}"
        settings = {
            "HF_ENDPOINT": address,
            "HF_HOME": str(tmp_path / "cache"),
            "HF_HUB_OFFLINE": "",
        }
        return {**os.environ, **settings}, servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_the_needed_files_are_downloaded_once_and_found_offline(serve, tmp_path):
    environment, hub = serve({**NEEDED, **OTHERS})
    first = run(albert("download", "owner/model@main"), env=environment)
    folder = first.stdout.strip()
    assert os.path.basename(folder) == COMMIT, first.stderr
    assert sorted(hub.fetched) == sorted(NEEDED)
    for name, content in NEEDED.items():
        with open(os.path.join(folder, name), "rb") as file:
            assert file.read() == content
    again = run(albert("download", "owner/model@main"), env=environment)
    offline = {**environment, "HF_HUB_OFFLINE": "1"}
    alone = run(albert("download", f"owner/model@{COMMIT}"), env=offline)
    assert (again.stdout, alone.stdout, len(hub.fetched)) == (
        first.stdout,
        first.stdout,
        len(NEEDED),
    )


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


WITHOUT_WEIGHTS = {"config.json": b"{}", "pytorch_model.bin": b"x"}


@pytest.mark.parametrize(
    ("files", "fault", "message"),
    [
        (NEEDED, "401 RepoNotFound", "no model on the hub; for a private one, set HF_TOKEN"),
        (NEEDED, "403 GatedRepo", "accept its conditions: do so at http://127"),
        (NEEDED, "404 RevisionNotFound", "owner/model on the hub has no revision main"),
        (NEEDED, "cut", "); run again to resume"),
        (NEEDED, "damaged", "another SHA-256 than announced; download again"),
        (WITHOUT_WEIGHTS, "", "no weights in safetensors, and other formats can run code"),
        (OTHERS, "", "no config.json, so it is no model of transformers"),
        (NEEDED, "no network", "hub cannot be reached; download it on a machine with a network"),
        (NEEDED, "offline", "and the hub cannot be reached"),
    ],
)
def test_faults_are_one_line(serve, files, fault, message):
    environment, _ = serve(files, fault)
    if fault == "no network":
        environment["HF_ENDPOINT"] = "http://127.0.0.1:9"
    elif fault == "offline":
        environment["HF_HUB_OFFLINE"] = "1"
    result = run(albert("download", "owner/model@main"), env=environment)
    assert_fails(result, 1, message)


def test_a_damaged_file_is_downloaded_again(serve):
    environment, hub = serve(NEEDED, "damaged")
    assert run(albert("download", "owner/model"), env=environment).returncode == 1
    hub.fault = ""
    result = run(albert("download", "owner/model"), env=environment)
    assert result.returncode == 0, result.stderr


def test_names_on_the_hub_are_not_paths():
    for name in ("a/b", "google/bert_uncased_L-2_H-128_A-2", "a/b@v1.0", "a/b@refs/pr/1"):
        assert is_hub_name(name)
    for path in ("a", "/a/b", "./a", "../a", "a/b/c", "a/b/", "~/a", "a b/c"):
        assert not is_hub_name(path)
    assert pinned_name("a/b@main", "/cache/snapshots/abc") == "a/b@abc"
    assert pinned_name("albert_base_v2", "/cache/albert_base_v2") == "albert_base_v2"
