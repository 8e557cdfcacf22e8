"""Runs `albert serve` in a separate process, and asks it."""

import contextlib
import http.client
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from typing import NamedTuple

from albert.core import files
from benchmarks.parts.models import QUESTION

HOST = "127.0.0.1"


class Server(NamedTuple):
    """A running server: its port, and the lines logged since it began to listen."""

    port: int
    log: list[str]


@contextlib.contextmanager
def served(folder: str, *flags: str, max_files: int | None = None) -> Iterator[Server]:
    """Serves a model with flags and, if given, at most `max_files` open files."""
    limit = f"ulimit -n {max_files}; " if max_files else ""
    command = files.command("serve", folder, "--port=0", "--max_bytes=4000000", *flags)
    command = ["bash", "-c", f'{limit}exec "$@"', "bash", *command]
    environment = {k: v for k, v in os.environ.items() if k != "ALBERT_TOKEN"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        lines, log = iter(process.stderr), list[str]()
        port = next((match[1] for line in lines if (match := re.search(r":(\d+);", line))), None)
        if not port:
            raise RuntimeError("the server has not started")
        reading = threading.Thread(target=lambda: log.extend(lines))
        reading.start()
        try:
            yield Server(int(port), log)
        finally:
            process.terminate()
            reading.join()


def body_of(text: str) -> str:
    """Returns the body of a request with a question about a text."""
    return json.dumps({"question": QUESTION, "context": text})


def ask(connection: http.client.HTTPConnection, text: str | None) -> None:
    """Asks about a text, or without one for /health, and reads the answer."""
    if text is None:
        connection.request("GET", "/health")
    else:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/answer", body_of(text), headers)
    response = connection.getresponse()
    content = response.read()
    if response.status != 200:
        raise RuntimeError(f"{response.status}: {content.decode()}")
