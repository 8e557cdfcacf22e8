"""Checks a SQuAD job before a card is booked: what is there, what is missing, how long and large.

  python check_setup.py FLAGS-OF-run_squad_v1.py [--bf16] [--json]

Nothing is trained or written. Exit code 1 if the job would fail. Under mpirun every rank checks its
own host, and what differs from rank 0 is listed.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from absl import flags

import runtime  # noqa: F401  First: it silences what TensorFlow prints when it is imported.
from runtime import app, distributed
from runtime.environment import Report, Row, describe_bf16, describe_environment
from runtime.flags import FLAGS, define_ignored_flags, define_run_flags, require
from runtime.memory import estimate_memory
from squad.flags import define_squad_flags
from squad.setup import describe_data, describe_model, training_graph

define_run_flags()
define_squad_flags()
define_ignored_flags()
flags.DEFINE_bool(
    "bf16",
    False,
    "List which operations TF_BF16_CONVERSION converts to bfloat16, and by which rule; of "
    "bf16_config/albert.json where it is not set.",
)
flags.DEFINE_bool("json", False, "Print JSON for programs instead of a table.")


def main(argv: list[str]) -> None:
    """Prints the report of all ranks."""
    del argv
    require("albert_config_file", "spm_model_file")
    report = Report()
    describe_environment(report)
    with report.part("model"):
        config, tokenizer = describe_model(report)
        with report.part("data"):
            describe_data(report, tokenizer)
    distributed.connect()
    lines = []
    if report.ok:
        with report.part("memory"):
            graph = training_graph(config)
            for item, size in estimate_memory(graph).items():
                report.add(item, f"{size / 1e9:.2f} GB")
        with report.part("bfloat16"):
            lines = describe_bf16(report, graph, with_table=FLAGS.bf16)
    ok = print_reports(gathered(report.rows), lines)
    # The launcher ends all ranks when the first one ends with 1: not before this is printed.
    distributed.share(None)
    sys.exit(0 if ok else 1)


def gathered(rows: list[Row]) -> list[list[Row]]:
    """The rows of every rank, on every rank."""
    if distributed.size() == 1:
        return [rows]
    content = np.frombuffer(json.dumps(rows).encode(), np.uint8)
    by_rank = distributed.gather([content], np.dtype(np.uint8))
    return [[Row(*row) for row in json.loads(arrays[0].tobytes())] for arrays in by_rank]


def print_reports(by_rank: list[list[Row]], lines: list[str]) -> bool:
    """Prints rank 0's rows and what the others have different; whether the job can run."""
    ok = all(row.ok for rows in by_rank for row in rows)
    if not distributed.is_chief():
        return ok
    if FLAGS.json:
        ranks = [[row._asdict() for row in rows] for rows in by_rank]
        print(json.dumps({"ok": ok, "ranks": ranks, "bf16_plan": lines}, indent=2), flush=True)
        return ok
    for row in by_rank[0]:
        print(table_line(row))
    for rank, rows in enumerate(by_rank[1:], start=1):
        for row in rows:
            if row not in by_rank[0]:
                print(f"rank {rank}: {table_line(row)}")
    print(*lines, sep="\n")
    print("the job can run" if ok else "the job would fail", flush=True)
    return ok


def table_line(row: Row) -> str:
    """A row of the table; what would make the job fail is marked."""
    return f"{'' if row.ok else 'FAILS':<6}{row.part:<10}{row.item:<26}{row.value}"


if __name__ == "__main__":
    app.run(main)
