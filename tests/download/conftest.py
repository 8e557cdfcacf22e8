"""A way to run the commands in this process."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from albert.core.log import LOG
from albert.download.command import run_command


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
