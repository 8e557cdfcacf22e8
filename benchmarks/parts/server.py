"""Runs `albert serve` in a separate process, and asks it."""

import collections
import contextlib
import http.client
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator

from albert.core import files
from benchmarks.parts.models import QUESTION

HOST = "127.0.0.1"


@contextlib.contextmanager
def served(folder: str, *flags: str) -> Iterator[int]:
    """Serves a model with flags; yields the port."""
    command = files.command("serve", folder, "--port=0", "--max_bytes=4000000", *flags)
    environment = {k: v for k, v in os.environ.items() if k != "ALBERT_TOKEN"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        lines = iter(process.stderr)
        port = next((match[1] for line in lines if (match := re.search(r":(\d+);", line))), None)
        if not port:
            raise RuntimeError("the server has not started")
        # Otherwise it would wait for a reader of its log.
        reading = threading.Thread(target=collections.deque, args=(lines, 0))
        reading.start()
        try:
            yield int(port)
        finally:
            process.terminate()
            reading.join()


def ask(connection: http.client.HTTPConnection, text: str) -> None:
    """Asks about a text, and reads the answer."""
    headers = {"Content-Type": "application/json"}
    body = json.dumps({"question": QUESTION, "context": text})
    connection.request("POST", "/v1/answer", body, headers)
    response = connection.getresponse()
    content = response.read()
    if response.status != 200:
        raise RuntimeError(f"{response.status}: {content.decode()}")
