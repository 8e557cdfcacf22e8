"""Measures the memory and time that checking and converting a table of questions take.

`albert data` gets a table with ids and one with a tenth of its rows. The benchmark fails if the
peak memory grows by more than 256 bytes per row.
"""

import os
import sys
import tempfile

from albert.core import files
from benchmarks.parts.flags import parse
from benchmarks.parts.harness import Table, timed

_MOST = 256.0


def main() -> int:
    """Writes both tables, measures both commands, prints the results and returns the exit code."""
    flags = parse(__doc__, rows=10_000_000)
    worst, counts = 0.0, (flags.rows // 10, flags.rows)
    print(f"{flags.rows:,} rows, and a tenth of them")
    table = Table("rows/s", "MB, a tenth", "MB, all", "bytes", name_width=10)
    with tempfile.TemporaryDirectory(dir=flags.folder) as folder:
        names = [os.path.join(folder, f"{count}.csv") for count in counts]
        for path, count in zip(names, counts, strict=True):
            write_table(path, count)
        for word in ("check", "convert"):
            words = (["data", word, path] for path in names)
            if word == "convert":
                words = ([*command, f"{command[-1]}.json"] for command in words)
            small, large = (timed(files.command(*w), f"{folder}/log") for w in words)
            growth = (large.memory - small.memory) / (counts[1] - counts[0])
            worst = max(worst, growth)
            sizes = (small.memory / 1e6, large.memory / 1e6, growth)
            rate = f"{flags.rows / large.seconds:.0f}"
            table.row(word, rate, *(f"{value:.1f}" for value in sizes))
    return int(worst > _MOST)


def write_table(path: str, rows: int) -> None:
    """Writes a table with three questions about each context; one in ten has no answer."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("id,context,question,answer\n")
        for number in range(rows):
            paragraph = number // 3
            text = f"River {paragraph} is {paragraph % 977} km long. It has {paragraph} bridges."
            answer = f"{paragraph} bridges" if number % 10 else ""
            question = f"What does river {paragraph} have ({number % 3})?"
            file.write(f"q{number},{text},{question},{answer}\n")


if __name__ == "__main__":
    sys.exit(main())
