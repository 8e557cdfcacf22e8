"""Runs `albert serve` in a separate process, and asks it."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import subprocess
from collections.abc import Iterator

from albert.core import files


@contextlib.contextmanager
def served(folder: str, *flags: str) -> Iterator[int]:
    """Serves a model with flags; yields the port."""
    # Long enough for a slow machine.
    command = files.command("serve", folder, "--port=0", "--max_seconds=3600", *flags)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        lines = iter(process.stderr)
        port = next((found[1] for line in lines if (found := re.search(r":(\d+);", line))), None)
        try:
            if not port:
                raise RuntimeError("the server has not started")
            yield int(port)
        finally:
            process.send_signal(signal.SIGTERM)


def ask(connection: http.client.HTTPConnection, question: str, text: str) -> None:
    """Asks, and reads the answer."""
    body = json.dumps({"question": question, "context": text})
    connection.request("POST", "/v1/answer", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    content = response.read()
    if response.status != 200:
        raise RuntimeError(f"{response.status}: {content.decode()}")
