"""Times ALBERT-base with random weights behind `albert serve`, next to calling the model directly.

  make bench NAME=serve FLAGS="[--seconds 5] [--lengths 32,128,384] ..."

The server runs in a separate process; each client asks, waits for the answer, and asks again. "One
by one" means direct calls in this process, without HTTP. The ways take turns. The table has
requests a second, their ratio to those of one by one as the median of the rounds, and percentiles
of the time to an answer. Next to them is the time that one by one would need for all requests that
may be ahead of a new one.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from albert.inference import load_model
from benchmarks.ask import QUESTION, text_of, write_model
from benchmarks.parts.harness import new_parser
from benchmarks.parts.server import ask, served

# With this many clients, the server must be at least as fast as one by one.
ENOUGH = 8
MOST_TOGETHER = 8


class Measurement(NamedTuple):
    """The measurements for a number of clients.

    Attributes:
      rate: answers a second.
      seconds: to each answer.
    """

    rate: float
    seconds: list[float]


def main() -> int:
    """Measures, prints the table, and returns 1 if a bound is exceeded."""
    flags = parse_flags()
    tf.logging.set_verbosity(tf.logging.ERROR)
    clients = [int(count) for count in flags.clients.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        write_model(folder, flags.config)
        model = load_model(folder)
        with served(folder, f"--max_batch={MOST_TOGETHER}") as port:
            print("{:30}{:>10}{:>8}{:>10}{:>10}{:>10}".format("", "a second", "times", *COLUMNS))
            holds = [
                measure(model, port, int(length), clients, flags)
                for length in flags.lengths.split(",")
            ]
    return 0 if all(holds) else 1


COLUMNS = ("p50, ms", "p99, ms", "bound, ms")


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--config", default="configs/albert_base_v2.json")
    parser.add_argument(
        "--lengths", default="32,64,128,256,384", help="numbers of tokens, separated by commas"
    )
    parser.add_argument(
        "--clients", default="1,8,32", help="numbers of simultaneous clients, separated by commas"
    )
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="duration of each way in a round"
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns of all ways")
    return parser.parse_args()


def measure(
    model: object, port: int, length: int, clients: list[int], flags: argparse.Namespace
) -> bool:
    """Measures texts of a length, prints their rows, and returns whether the bounds hold."""
    text = text_of(model.folder, length)
    alone: list[Measurement] = []
    by_clients: dict[int, list[Measurement]] = {count: [] for count in clients}
    # The first use of a batch's shape is slow.
    asked_by(max(clients), port, text, flags.seconds)
    for _ in range(flags.rounds):
        alone.append(timed(lambda n: model.answer(QUESTION, [f"{n} {text}"]), flags.seconds))
        for count, measured in by_clients.items():
            measured.append(asked_by(count, port, text, flags.seconds))
    base = statistics.median(one.rate for one in alone)
    print_row(f"{length} tokens, one by one", alone, 1.0)
    holds = True
    for count, measured in by_clients.items():
        times = statistics.median(a.rate / b.rate for a, b in zip(measured, alone, strict=True))
        bound = (count + MOST_TOGETHER) / base
        p99 = print_row(f"{length} tokens, {count} clients", measured, times, bound)
        holds = holds and p99 <= bound and (count != ENOUGH or times >= 1)
    return holds


def timed(asks: Callable[[int], object], seconds: float) -> Measurement:
    """Asks repeatedly; simultaneous calls need different numbers."""
    start, each = time.perf_counter(), []
    while not each or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        asks(len(each))
        each.append(time.perf_counter() - begin)
    return Measurement(len(each) / (time.perf_counter() - start), each)


def asked_by(count: int, port: int, text: str, seconds: float) -> Measurement:
    """Measures several clients that ask at the same time."""
    results: list[Measurement] = []

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        with contextlib.closing(connection):
            results.append(
                timed(lambda n: ask(connection, QUESTION, f"{number} {n} {text}"), seconds)
            )

    threads = [threading.Thread(target=client, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(results) < count:
        raise RuntimeError("a client has failed")
    return Measurement(
        sum(one.rate for one in results), [s for one in results for s in one.seconds]
    )


def print_row(name: str, measured: list[Measurement], times: float, bound: float = 0.0) -> float:
    """Prints a row; returns the 99th percentile in seconds."""
    rate = statistics.median(one.rate for one in measured)
    seconds = [second for one in measured for second in one.seconds]
    p50, p99 = np.percentile(seconds, [50, 99])
    shown = f"{1000 * bound:10.1f}" if bound else ""
    print(f"{name:30}{rate:10.1f}{times:8.2f}{1000 * p50:10.1f}{1000 * p99:10.1f}{shown}")
    return float(p99)


if __name__ == "__main__":
    sys.exit(main())
