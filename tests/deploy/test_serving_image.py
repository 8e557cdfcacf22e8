"""The image that serves a model: its exact packages, and the server as another user."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from tests.helpers.forking import ROOT
from tests.helpers.needs import OF_MACHINE
from tests.helpers.running import run

FOLDER = ROOT / "deploy" / "serve"
AS_OTHER = ["unshare", "--user", "--map-user=1000"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_image_serves_a_read_only_model_as_another_user(exported, tmp_path):
    """Without a daemon, its commands run here, in other folders."""
    if subprocess.run([*AS_OTHER, "true"], capture_output=True).returncode:
        pytest.skip(f"{OF_MACHINE}, no process can become another user")
    folders = {f"/{name}": str(tmp_path / name) for name in ("source", "opt", "model")}
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
    for folder, here in folders.items():
        text = re.sub(rf"{folder}\b", here, text)
    instructions = [line.split(" ", 1) for line in text.splitlines() if line[:1] not in ("", "#")]
    for name in (FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines():
        if name.startswith("!"):
            copy = shutil.copytree if (ROOT / name[1:]).is_dir() else shutil.copy
            (tmp_path / "source").mkdir(exist_ok=True)
            copy(ROOT / name[1:], tmp_path / "source" / name[1:])
    base = {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}", "HOME": "/none"}
    for kind, words in instructions:
        if kind == "RUN":
            subprocess.run(["bash", "-ec", words], env=base, check=True, cwd=tmp_path)
    (settings,) = [
        dict(re.findall(r"(\w+)=(\S+)", words)) for k, words in instructions if k == "ENV"
    ]
    environment = {**base, **settings, "ALBERT_TOKEN": "secret"}
    environment["PATH"] = settings["PATH"].replace("$PATH", base["PATH"])
    shutil.copytree(exported, tmp_path / "model")
    for folder in (tmp_path / "opt", tmp_path / "model"):
        run(["chmod", "-R", "a-w", str(folder)])
    words = {k: json.loads(words) for k, words in instructions if k in ("ENTRYPOINT", "CMD")}
    command = [word.replace("8080", "0") for word in words["ENTRYPOINT"] + words["CMD"]]
    server = subprocess.Popen(
        [*AS_OTHER, *command], env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    try:
        lines = []
        while not (found := re.search(r"http://\S+:(\d+)", lines[-1] if lines else "")):
            assert (line := server.stderr.readline()), "".join(lines)
            lines.append(line)
        check = next(words for kind, words in instructions if kind == "HEALTHCHECK")
        health = json.loads(check.split("CMD ")[1].replace("8080", found[1]))
        subprocess.run(health, env=environment, check=True)
        assert any("Engine: openvino" in line for line in lines), "".join(lines)
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 128 + signal.SIGTERM
    size = run(["du", "-sm", str(tmp_path / "opt/albert")]).stdout.split()[0]
    assert int(size) < 1600, "docs/serving.md says 1.4 GB"
