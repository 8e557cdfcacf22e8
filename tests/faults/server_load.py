"""Loads on serve.py, and how long a well-behaved client waits beside them.

  python -m tests.faults.server_load [--seconds=60] [--idle=1200] [--half=600] [--large=3] ...

A tiny model is served with few files (`ulimit -n`). Each load is kept up for some seconds: idle
connections, requests of which only the beginning is sent, bodies of 3 MB. Connections that the
server closes are opened again, a hundred a second. The client sends a hundred requests again and
again, every tenth to /health, each over a connection of its own. With a load the 99th percentile of
the time to an answer is to be at most three times that without, measured before and after; nothing
may fail, and the server logs at most a line a minute.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import re
import resource
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.ask import QUESTION, write_model
from tests.helpers.forking import ROOT

MOST_TIMES = 3.0
SENTENCE = "The river of this old city has a name and a long way to the sea. "
HALF = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: "
CONFIG = {
    **{"vocab_size": 200, "embedding_size": 16, "hidden_size": 32, "intermediate_size": 64},
    **{"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 128},
}
HOST = "127.0.0.1"
Load = Callable[[int], contextlib.AbstractContextManager[None]]


class Server(NamedTuple):
    """A server that runs: its port, and the lines that it has logged since it listens."""

    port: int
    log: list[str]


def main() -> int:
    """Measures, prints the table, and tells by the exit code whether the promises hold."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load")
    parser.add_argument("--files", type=int, default=1024, help="that the server may open")
    parser.add_argument("--idle", type=int, default=1200, help="connections")
    parser.add_argument("--half", type=int, default=600, help="requests")
    parser.add_argument("--large", type=int, default=3, help="bodies at a time")
    flags = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    loads: dict[str, Load] = {
        f"{flags.idle} idle connections": lambda port: connections(port, flags.idle, b""),
        f"{flags.half} half-sent requests": lambda port: connections(port, flags.half, HALF),
        f"{flags.large} bodies of 3 MB": lambda port: large_bodies(port, flags.large),
    }
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "config.json")
        config.write_text(json.dumps(CONFIG))
        write_model(folder, str(config))
        with served(folder, flags.files) as server:
            print(f"{'':28}{'p99 without, ms':>18}{'with, ms':>12}{'times':>8}{'log':>6}")
            holds = [compare(name, server, load, flags.seconds) for name, load in loads.items()]
    return 0 if all(holds) else 1


@contextlib.contextmanager
def served(model: str, files: int) -> Iterator[Server]:
    """Serves a model with so many files; yields the server."""
    command = [sys.executable, str(ROOT / "serve.py"), model, "--port=0", "--max_bytes=4000000"]
    command = ["bash", "-c", f'ulimit -n {files}; exec "$@"', "bash", *command]
    environment = {k: v for k, v in os.environ.items() if k != "ALBERT_TOKEN"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        lines = iter(process.stderr)
        port = next((found[1] for line in lines if (found := re.search(r":(\d+);", line))), None)
        if not port:
            raise RuntimeError("the server has not started")
        log: list[str] = []
        reading = threading.Thread(target=lambda: log.extend(lines))
        reading.start()
        try:
            yield Server(int(port), log)
        finally:
            process.send_signal(signal.SIGTERM)
            reading.join()


def compare(name: str, server: Server, load: Load, seconds: float) -> bool:
    """Measures without and with a load, prints the row, and tells whether the promises hold."""
    logged, without = len(server.log), times(server.port, seconds / 2)
    with load(server.port):
        beside = times(server.port, seconds)
    without += times(server.port, seconds / 2)
    base, p99 = (1000 * np.percentile(found, 99) for found in (without, beside))
    lines = len(server.log) - logged
    print(f"{name:28}{base:18.1f}{p99:12.1f}{p99 / base:8.2f}{lines:6}", flush=True)
    return p99 <= MOST_TIMES * base and lines <= 1 + 2 * seconds / 60


def times(port: int, seconds: float) -> list[float]:
    """Asks for so long, a hundred times at least; returns the seconds to each answer."""
    end, found = time.monotonic() + seconds, []
    while not found or time.monotonic() < end:
        found += [request(port, number) for number in range(100)]
    return found


def request(port: int, number: int) -> float:
    """Asks as a well-behaved client does; returns the seconds to the answer."""
    start, connection = time.perf_counter(), http.client.HTTPConnection(HOST, port, timeout=30)
    with contextlib.closing(connection):
        if number % 10:
            send(connection, f"{number}. {SENTENCE}")
        else:
            connection.request("GET", "/health")
        response = connection.getresponse()
        content = response.read()
    if response.status != 200:
        raise RuntimeError(f"{response.status}: {content.decode()}")
    return time.perf_counter() - start


def send(connection: http.client.HTTPConnection, text: str) -> None:
    """Sends a question on a text."""
    body = json.dumps({"question": QUESTION, "context": text})
    connection.request("POST", "/v1/answer", body, {"Content-Type": "application/json"})


@contextlib.contextmanager
def connections(port: int, count: int, sent: bytes) -> Iterator[None]:
    """Keeps connections open over which no more than this is sent."""
    ends = threading.Event()

    def open_one() -> None:
        # The queue may be full.
        with contextlib.suppress(OSError):
            opened = socket.create_connection((HOST, port), timeout=5)
            opened.sendall(sent)
            selector.register(opened, selectors.EVENT_READ)

    def close(opened: socket.socket) -> None:
        selector.unregister(opened)
        opened.close()

    def keep_open() -> None:
        while not ends.wait(0.01):
            for key, _ in selector.select(0):
                close(key.fileobj)
            if len(selector.get_map()) < count:
                open_one()

    with selectors.DefaultSelector() as selector:
        for _ in range(count):
            open_one()
        keeping = threading.Thread(target=keep_open)
        keeping.start()
        try:
            yield
        finally:
            ends.set()
            keeping.join()
            for key in list(selector.get_map().values()):
                close(key.fileobj)


@contextlib.contextmanager
def large_bodies(port: int, count: int, size: int = 3_000_000) -> Iterator[None]:
    """Sends bodies of a size, so many at a time; at the end their clients hang up."""
    ends = threading.Event()
    text = SENTENCE * (size // len(SENTENCE))
    held: set[http.client.HTTPConnection] = set()

    def post() -> None:
        while not ends.is_set():
            connection = http.client.HTTPConnection(HOST, port, timeout=120)
            held.add(connection)
            with contextlib.suppress(OSError, http.client.HTTPException):
                send(connection, text)
                connection.getresponse().read()
            held.discard(connection)
            connection.close()

    threads = [threading.Thread(target=post) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ends.set()
        for connection in list(held):
            with contextlib.suppress(OSError, AttributeError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    sys.exit(main())
