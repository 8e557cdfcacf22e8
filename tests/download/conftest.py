"""The server as a fixture, and ways to run the commands against it."""

import hashlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from albert.core.log import LOG
from albert.download import fetch
from albert.download.command import run_command
from albert.download.published import PUBLISHED
from tests.helpers.download import Server


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    # A proxy that is set for this machine is not for a local server.
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(fetch, "FIRST_WAIT", 0.01)
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.release.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def command(monkeypatch, capsys, caplog) -> Callable[..., subprocess.CompletedProcess]:
    """Runs the `main` of a script in this process; its log lines precede its error."""

    def command(main: Callable[[], None], *args: object) -> subprocess.CompletedProcess:
        name = main.__module__.rpartition(".")[2] + ".py"
        monkeypatch.setattr(sys, "argv", [name, *map(str, args)])
        monkeypatch.setattr(LOG, "propagate", True)
        caplog.set_level("INFO", LOG.name)
        caplog.clear()
        try:
            code = run_command(main)
        except SystemExit as end:
            code = end.code or 0
        out, err = capsys.readouterr()
        log = "".join(f"{message}\n" for message in caplog.messages)
        return subprocess.CompletedProcess(sys.argv, code, out, log + err)

    return command


@pytest.fixture
def publish(monkeypatch) -> Callable[[dict[str, bytes]], None]:
    def publish(files: dict[str, bytes]) -> None:
        for name, content in files.items():
            sha256 = hashlib.sha256(content).hexdigest()
            file = PUBLISHED[name]._replace(sha256=sha256, size=len(content))
            monkeypatch.setitem(PUBLISHED, name, file)

    return publish
