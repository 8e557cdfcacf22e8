"""Puts loads on `albert serve`, and times a well-behaved client meanwhile.

  python -m benchmarks.server_load [--seconds=60] [--idle=1200] [--half=600] [--large=3] ...

The server has a tiny model and may open few files (`ulimit -n`). Each load lasts for some seconds:
idle connections, requests of which only the beginning is sent, bodies of 3 MB. Connections that the
server closes are opened again, a hundred a second. The client sends a hundred requests repeatedly,
every tenth to /health, each over a new connection. Under a load, the 99th percentile of the time to
an answer must be at most three times that without load, measured before and after. No request may
fail, and the server may log at most one line a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from albert.core import files
from benchmarks.ask import QUESTION, write_model

ROOT = pathlib.Path(__file__).resolve().parents[1]
MOST_TIMES = 3.0
SENTENCE = "The river of this old city has a name and a long way to the sea. "
HALF = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: "
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
CONFIG = {
    **{"vocab_size": 200, "embedding_size": 16, "hidden_size": 32, "intermediate_size": 64},
    **{"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 128},
}
HOST = "127.0.0.1"


class Server(NamedTuple):
    """A running server: its port, and the lines logged since it began to listen."""

    port: int
    log: list[str]


def main() -> int:
    """Measures, prints the table, and returns 1 if a bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of each load")
    parser.add_argument(
        "--files", type=int, default=1024, help="number of files that the server may open"
    )
    parser.add_argument("--idle", type=int, default=1200, help="number of idle connections")
    parser.add_argument("--half", type=int, default=600, help="number of incomplete requests")
    parser.add_argument("--large", type=int, default=3, help="number of simultaneous large bodies")
    flags = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    large = post_of(SENTENCE * (3_000_000 // len(SENTENCE)))
    loads = {
        f"{flags.idle} idle connections": (flags.idle, b""),
        f"{flags.half} half-sent requests": (flags.half, HALF),
        f"{flags.large} bodies of 3 MB": (flags.large, large),
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
def served(model: str, max_files: int) -> Iterator[Server]:
    """Serves a model with at most `max_files` open files; yields the server."""
    command = [*files.command("serve"), model, "--port=0", "--max_bytes=4000000"]
    command = ["bash", "-c", f'ulimit -n {max_files}; exec "$@"', "bash", *command]
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


def compare(name: str, server: Server, load: tuple[int, bytes], seconds: float) -> bool:
    """Measures without and with a load, prints the row, and returns whether the bounds hold."""
    logged, without = len(server.log), times(server.port, seconds / 2)
    with connections(server.port, *load):
        beside = times(server.port, seconds)
    without += times(server.port, seconds / 2)
    base, p99 = (1000 * np.percentile(found, 99) for found in (without, beside))
    lines = len(server.log) - logged
    print(f"{name:28}{base:18.1f}{p99:12.1f}{p99 / base:8.2f}{lines:6}", flush=True)
    return p99 <= MOST_TIMES * base and lines <= 1 + 2 * seconds / 60


def times(port: int, seconds: float) -> list[float]:
    """Asks for a time, and at least a hundred times; returns the seconds to each answer."""
    end, found = time.monotonic() + seconds, []
    while not found or time.monotonic() < end:
        found += [request(port, number) for number in range(100)]
    return found


def request(port: int, number: int) -> float:
    """Asks as a well-behaved client does; returns the seconds to the answer."""
    asked = post_of(f"{number}. {SENTENCE}") if number % 10 else HEALTH
    start = time.perf_counter()
    with socket.create_connection((HOST, port), timeout=30) as connection:
        connection.sendall(asked)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(answer.decode())
    return time.perf_counter() - start


def post_of(text: str) -> bytes:
    """Returns a request with a question about a text."""
    body = json.dumps({"question": QUESTION, "context": text}).encode()
    head = "POST /v1/answer HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: "
    return f"{head}application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@contextlib.contextmanager
def connections(port: int, count: int, sent: bytes) -> Iterator[None]:
    """Keeps connections open that have sent some bytes, and replaces those that end."""
    loop, tried, are_open = asyncio.new_event_loop(), itertools.count(1), threading.Event()

    async def keep_one(turn: asyncio.Lock) -> None:
        while True:
            # The queue may be full, or the server may hang up.
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(HOST, port)
                with contextlib.closing(writer):
                    writer.write(sent)
                    if next(tried) == count:
                        are_open.set()
                    await reader.read()
            async with turn:
                await asyncio.sleep(0.01)

    async def keep_all() -> None:
        turn = asyncio.Lock()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*(keep_one(turn) for _ in range(count)))

    keeping = loop.create_task(keep_all())
    thread = threading.Thread(target=loop.run_until_complete, args=[keeping])
    thread.start()
    try:
        are_open.wait()
        yield
    finally:
        loop.call_soon_threadsafe(keeping.cancel)
        thread.join()
        loop.close()


if __name__ == "__main__":
    sys.exit(main())
