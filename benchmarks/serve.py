"""Times ALBERT-base with random weights behind `albert serve`, next to calling the model directly.

The server runs in a separate process; each client asks, waits for the answer, and asks again, for
--seconds in each of --rounds. "One by one" and "together" mean direct calls in this process,
without HTTP. The ways take turns. The table has questions a second, their ratio to those of one by
one as the median of the rounds, and percentiles of the time to an answer. Next to them is the time
that one by one would need for all requests that may be ahead of a new one.
"""

import concurrent.futures
import contextlib
import functools
import http.client
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

from albert.inference import load_model
from albert.inference.squad import QuestionAnswerer
from benchmarks.parts.flags import BASE, Flags, parse
from benchmarks.parts.harness import Table, ratios_of, seconds_of
from benchmarks.parts.models import QUESTION, text_of, write_model
from benchmarks.parts.server import HOST, ask, served

# With this many clients, the server must be at least as fast as one by one.
ENOUGH = 8
MOST_TOGETHER = 8
# Answers a second, and the seconds to each answer.
Measured = tuple[float, list[float]]


def main() -> int:
    """Measures, prints the table, and returns 1 if a bound is exceeded."""
    lists = {"lengths": "32,64,128,256,384", "clients": "1,8,32"}
    flags = parse(__doc__, config=BASE, seconds=5.0, rounds=3, **lists)
    with tempfile.TemporaryDirectory() as folder:
        write_model(folder, flags.config)
        model = load_model(folder)
        with served(folder, f"--max_batch={MOST_TOGETHER}", "--max_seconds=3600") as port:
            table = Table("a second", "times", "p50, ms", "p99, ms", "bound, ms", name_width=30)
            holds = [
                measure(model, port, int(length), flags, table)
                for length in flags.lengths.split(",")
            ]
    return 0 if all(holds) else 1


def measure(model: QuestionAnswerer, port: int, length: int, flags: Flags, table: Table) -> bool:
    """Measures texts of a length, prints their rows, and returns whether the bounds hold."""
    text, counts = text_of(model.folder, length), [int(n) for n in flags.clients.split(",")]

    def answer(number: int) -> None:
        model.answer(QUESTION, [f"{number} {text}"])

    def answer_together(number: int) -> None:
        model.answer(QUESTION, [f"{number} {n} {text}" for n in range(MOST_TOGETHER)])

    ways: dict[str, Callable[[], Measured]] = {
        "one by one": lambda: timed(answer, flags.seconds),
        f"{MOST_TOGETHER} together": lambda: timed(answer_together, flags.seconds, MOST_TOGETHER),
    }
    of_clients = {f"{count} clients": count for count in counts}
    for name, count in of_clients.items():
        ways[name] = functools.partial(asked_by, count, port, text, flags.seconds)
    # The first use of a batch's shape is slow.
    asked_by(max(counts), port, text, flags.seconds)
    answer_together(0)
    measured: dict[str, list[Measured]] = {name: [] for name in ways}
    for _ in range(flags.rounds):
        for name, way in ways.items():
            measured[name].append(way())
    base, holds = [rate for rate, _ in measured["one by one"]], True
    for name, rounds in measured.items():
        rates, seconds = zip(*rounds, strict=True)
        times = statistics.median(ratios_of(rates, base))
        p50, p99 = np.percentile(np.concatenate(seconds), [50, 99])
        shown, count = [p50, p99], of_clients.get(name)
        if count:
            shown.append((count + MOST_TOGETHER) / statistics.median(base))
            holds = holds and p99 <= shown[-1] and (count != ENOUGH or times >= 1)
        rate = f"{statistics.median(rates):.1f}"
        cells = (f"{1000 * value:.1f}" for value in shown)
        table.row(f"{length} tokens, {name}", rate, f"{times:.2f}", *cells)
    return holds


def timed(asks: Callable[[int], object], seconds: float, together: int = 1) -> Measured:
    """Asks repeatedly, with different numbers, some questions together."""
    start, each = time.perf_counter(), []
    while not each or time.perf_counter() - start < seconds:
        each.append(seconds_of(lambda: asks(len(each))))
    return together * len(each) / (time.perf_counter() - start), each


def asked_by(count: int, port: int, text: str, seconds: float) -> Measured:
    """Measures several clients that ask at the same time."""

    def client(number: int) -> Measured:
        with contextlib.closing(http.client.HTTPConnection(HOST, port)) as connection:
            return timed(lambda n: ask(connection, f"{number} {n} {text}"), seconds)

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        rates, each = zip(*pool.map(client, range(count)), strict=True)
    return sum(rates), [second for seconds in each for second in seconds]


if __name__ == "__main__":
    sys.exit(main())
