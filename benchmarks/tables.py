"""Measures the memory and time that reading, checking and converting a table of questions take.

  make bench NAME=tables FLAGS="[--rows 10000000] [--form csv]"

Every way is measured in a separate process, on a table with ids and on one with a tenth of its
rows. The benchmark fails if the peak memory grows by more than 256 bytes per row.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import sys
import tempfile
import time

from benchmarks.parts.harness import give, new_parser, run_again

_MOST = 256.0
_FORMS = ("csv", "tsv", "jsonl")


def main() -> int:
    """Writes both tables, measures every way, prints the results and returns the exit code."""
    flags = parse_flags()
    if flags.way:
        give(measure(flags.way, flags.table))
        return 0
    worst = 0.0
    with tempfile.TemporaryDirectory(dir=flags.folder) as folder:
        tables = [os.path.join(folder, f"{n}.{flags.form}") for n in (flags.rows // 10, flags.rows)]
        for table in tables:
            write_table(table, flags.form, int(os.path.basename(table).split(".")[0]))
        sizes = [os.path.getsize(table) / 1e6 for table in tables]
        print(f"{flags.rows:,} rows of {flags.form}, {sizes[1]:.0f} MB, and a tenth of them")
        print(f"{'':<10}{'rows/s':>10}{'MB, a tenth':>14}{'MB, all':>10}{'bytes':>8}")
        for way in WAYS:
            small, large = (run_again("tables", f"--way={way}", f"--table={t}") for t in tables)
            growth = (large["mb"] - small["mb"]) * 1e6 / (flags.rows - flags.rows // 10)
            worst = max(worst, growth)
            rate = flags.rows / large["seconds"]
            memory = f"{small['mb']:>14.1f}{large['mb']:>10.1f}{growth:>8.1f}"
            print(f"{way:<10}{rate:>10.0f}{memory}", flush=True)
    return int(worst > _MOST)


def parse_flags() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the larger table")
    parser.add_argument("--form", choices=_FORMS, default="csv")
    parser.add_argument("--folder", help="folder for the files, which are removed")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--table", help=argparse.SUPPRESS)
    return parser.parse_args()


def write_table(path: str, form: str, rows: int) -> None:
    """Writes a table with three questions about each context; one in ten has no answer."""
    names = "id", "context", "question", "answer"
    delimiter = "," if form == "csv" else "\t"
    with open(path, "w", encoding="utf-8") as file:
        if form != "jsonl":
            file.write(delimiter.join(names) + "\n")
        for number in range(rows):
            paragraph = number // 3
            text = f"River {paragraph} is {paragraph % 977} km long. It has {paragraph} bridges."
            answer = f"{paragraph} bridges" if number % 10 else ""
            row = f"q{number}", text, f"What does river {paragraph} have ({number % 3})?", answer
            if form == "jsonl":
                file.write(json.dumps(dict(zip(names, row, strict=True))) + "\n")
            else:
                file.write(delimiter.join(row) + "\n")


def measure(way: str, table: str) -> dict[str, float]:
    """Returns the seconds of a way and the peak memory of this process in MB."""
    start = time.perf_counter()
    with contextlib.redirect_stdout(sys.stderr):
        WAYS[way](table)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"seconds": time.perf_counter() - start, "mb": peak}


def read(table: str) -> None:
    from albert.data.tables import open_table

    for _ in open_table(table).rows():
        pass


def check(table: str) -> None:
    from albert.cli.data import check
    from albert.tasks.squad.questions import Questions, QuestionSource

    check(Questions(QuestionSource(table)), 1)


def convert(table: str) -> None:
    from albert.cli.data import convert
    from albert.tasks.squad.questions import Questions, QuestionSource

    convert(Questions(QuestionSource(table)), table + ".json")
    os.remove(table + ".json")


WAYS = {"read": read, "check": check, "convert": convert}


if __name__ == "__main__":
    sys.exit(main())
