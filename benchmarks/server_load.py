"""Puts loads on `albert serve`, and times a well-behaved client meanwhile.

The server has a tiny model and may open few --files (`ulimit -n`). Each load lasts for --seconds:
--idle connections, --half requests of which only the beginning is sent, --large bodies of 3 MB.
Connections that the server closes are opened again, a hundred a second. The client sends a hundred
requests repeatedly, every tenth to /health, each over a new connection. Under a load, the 99th
percentile of the time to an answer must be at most three times that without load, measured before
and after. No request may fail, and the server may log at most one line a minute.
"""

import asyncio
import contextlib
import http.client
import itertools
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

import numpy as np

from albert.core.files import write_json
from benchmarks.parts.flags import parse
from benchmarks.parts.harness import Table, seconds_of
from benchmarks.parts.models import write_model
from benchmarks.parts.server import HOST, ask, body_of, served

_MOST_TIMES = 3.0
_SENTENCE = "The river of this old city has a name and a long way to the sea. "
_CONFIG = {
    **{"vocab_size": 200, "embedding_size": 16, "hidden_size": 32, "intermediate_size": 64},
    **{"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 128},
}


def main() -> int:
    """Measures, prints the table, and returns 1 if a bound is exceeded."""
    counts = {"files": 1024, "idle": 1200, "half": 600, "large": 3}
    flags = parse(__doc__, seconds=60.0, **counts)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    half = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: "
    body = body_of(_SENTENCE * 46_153)
    head = "POST /v1/answer HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: "
    large = f"{head}application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    loads = {
        f"{flags.idle} idle connections": (flags.idle, b""),
        f"{flags.half} half-sent requests": (flags.half, half),
        f"{flags.large} bodies of 3 MB": (flags.large, large),
    }
    holds = True
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "config.json")
        write_json(config, _CONFIG)
        write_model(folder, config)
        with served(folder, max_files=flags.files) as server:
            table = Table("p99 without, ms", "with, ms", "times", "log", name_width=28)
            for name, load in loads.items():
                logged, without = len(server.log), times(server.port, flags.seconds / 2)
                with connections(server.port, *load):
                    during = times(server.port, flags.seconds)
                without += times(server.port, flags.seconds / 2)
                base, p99 = (1000 * np.percentile(values, 99) for values in (without, during))
                lines = len(server.log) - logged
                table.row(name, f"{base:.1f}", f"{p99:.1f}", f"{p99 / base:.2f}", lines)
                holds = holds and p99 <= _MOST_TIMES * base and lines <= 1 + flags.seconds / 30
    return 0 if holds else 1


def times(port: int, seconds: float) -> list[float]:
    """Asks for a time, and at least a hundred times; returns the seconds to each answer."""
    end, answers = time.monotonic() + seconds, []
    while not answers or time.monotonic() < end:
        for number in range(100):
            text = f"{number}. {_SENTENCE}" if number % 10 else None
            answers.append(seconds_of(lambda text=text: ask_once(port, text)))
    return answers


def ask_once(port: int, text: str | None) -> None:
    """Asks as a well-behaved client does."""
    with contextlib.closing(http.client.HTTPConnection(HOST, port, timeout=30)) as connection:
        ask(connection, text)


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
