"""Checks a job before a card is booked: what is there, what is missing, how long and large.

  python check_setup.py [PROGRAM] FLAGS-OF-THE-PROGRAM [--bf16] [--json]

PROGRAM is run_squad_v1.py, run_classifier.py or run_pretraining.py; without one it is the first.
Nothing is trained or written. Exit code 1 if the job would fail. Under mpirun every rank checks its
own host, and what differs from rank 0 is listed. --device_memory=32GB compares the memory of a
training step with that of a card elsewhere.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from absl import flags

import runtime  # noqa: F401  First: it silences what TensorFlow prints when it is imported.
from glue.flags import define_glue_flags
from glue.setup import GlueJob
from pretraining.flags import define_pretraining_flags
from pretraining.setup import PretrainingJob
from runtime import app, distributed
from runtime.bf16.rules import Plan
from runtime.devices import device
from runtime.flags import FLAGS, define_ignored_flags, define_run_flags
from runtime.preflight.available_memory import parse_size
from runtime.preflight.checks import (
    Job,
    describe_bf16,
    describe_checkpoints,
    describe_memory,
    describe_training,
    describe_variables,
    training_step,
)
from runtime.preflight.report import Report, Row, describe_environment
from squad.flags import define_squad_flags
from squad.setup import SquadJob


class SizeParser(flags.ArgumentParser):
    """Takes the value of a flag as bytes."""

    syntactic_help = "a size such as 32GB"

    def parse(self, argument: str) -> int:
        """Returns the bytes; raises a `ValueError` if that is no size."""
        return parse_size(argument)


class Program(NamedTuple):
    """A program whose jobs can be checked: its flags, those that it needs, and what checks them."""

    define_flags: Callable[[], None]
    required: Sequence[str]
    make_job: Callable[[Report], Job]


_MODEL = ("albert_config_file", "output_dir")
PROGRAMS = {
    "run_squad_v1.py": Program(define_squad_flags, (*_MODEL, "spm_model_file"), SquadJob),
    "run_classifier.py": Program(
        define_glue_flags, (*_MODEL, "spm_model_file", "data_dir", "task_name"), GlueJob
    ),
    "run_pretraining.py": Program(define_pretraining_flags, _MODEL, PretrainingJob),
}


def take_program() -> Program:
    """Takes the program's name off the command line; SQuAD's is the default."""
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        return PROGRAMS["run_squad_v1.py"]
    name = os.path.basename(sys.argv.pop(1)).removesuffix(".py") + ".py"
    if name not in PROGRAMS:
        known = ", ".join(PROGRAMS)
        print(f"check_setup.py: error: {name} is not one of {known}", file=sys.stderr)
        sys.exit(2)
    return PROGRAMS[name]


def define_flags(program: Program) -> None:
    """Defines the program's own flags and those of the report."""
    define_run_flags()
    program.define_flags()
    define_ignored_flags()
    flags.DEFINE_bool(
        "bf16",
        False,
        "List which operations TF_BF16_CONVERSION converts to bfloat16, and by which rule; of "
        "bf16_config/albert.json where it is not set.",
    )
    flags.DEFINE(
        SizeParser(),
        "device_memory",
        None,
        "Memory of each card of another machine, such as 32GB, 94GiB or 24000MB, to compare a "
        "training step with. Default: what the device here has.",
    )
    flags.DEFINE_bool("json", False, "Print JSON for programs instead of a table.")


def main(program: Program) -> None:
    """Prints the report of all ranks and ends with exit code 0, or 1 if the job would fail."""
    report = Report()
    describe_environment(report, program.required)
    job = describe_input(report, program) if report.ok else None
    connect(report, job)
    plan = describe_graph(report, job) if report.ok else None
    by_rank = [[Row(*row) for row in rows] for rows in distributed.gather_json(report.rows)]
    ok = print_reports(by_rank, plan if FLAGS.bf16 else None)
    # The launcher ends all ranks when the first one ends with 1: not before this is printed.
    distributed.share(None)
    sys.exit(0 if ok else 1)


def describe_input(report: Report, program: Program) -> Job | None:
    """Adds the job's files and its output folder, and returns the job; None if it is no good."""
    with report.part("model"):
        job = program.make_job(report)
        report.go_on("data")
        job.describe_data(report)
        report.go_on("training")
        describe_training(report, job)
        return job
    return None


def connect(report: Report, job: Job | None) -> None:
    """Loads the device, waits for the other ranks and compares settings, as the job would."""
    with report.part("job"):
        device.prepare()
    distributed.connect(on_cpu=device.kind() == "cpu")
    if all(distributed.gather_json(report.ok)) and job.steps():
        with report.part("job"):
            distributed.check_alike(job.training_settings())
    with report.part("programs"):
        report.add("Horovod", distributed.description())


def describe_graph(report: Report, job: Job) -> Plan | None:
    """Adds the graph of a training step; returns what becomes bfloat16 in it, if that is asked."""
    with report.part("model"):
        step = training_step(job)
        describe_variables(report, job, step.graph)
        report.go_on("memory")
        describe_memory(report, job, step, FLAGS.device_memory)
        report.go_on("training")
        describe_checkpoints(report, job, step.graph)
        report.go_on("bfloat16")
        return describe_bf16(report, job, wanted=FLAGS.bf16)
    return None


def print_reports(by_rank: list[list[Row]], plan: Plan | None) -> bool:
    """Prints rank 0's rows and what other ranks have different; returns whether the job can run."""
    ok = all(row.ok for rows in by_rank for row in rows)
    if not distributed.is_first():
        if distributed.size() == 1:
            # Not connected: what rank 0 finds too, it says; the launcher ends this one then.
            distributed.let_rank_0_go_first()
            for row in by_rank[0]:
                if not row.ok:
                    print(f"{distributed.label()}: {table_line(row)}", flush=True)
        return ok
    if FLAGS.json:
        ranks = [[row._asdict() for row in rows] for rows in by_rank]
        planned = plan and plan.as_dict()
        print(json.dumps({"ok": ok, "ranks": ranks, "bf16_plan": planned}, indent=2), flush=True)
        return ok
    parts = list(dict.fromkeys(row.part for row in by_rank[0]))
    for row in sorted(by_rank[0], key=lambda row: parts.index(row.part)):
        print(table_line(row))
    for rank, rows in enumerate(by_rank[1:], start=1):
        for row in rows:
            if row not in by_rank[0]:
                print(f"rank {rank}: {table_line(row)}")
    for line in plan.table() if plan else []:
        print(line)
    print("the job can run" if ok else "the job would fail", flush=True)
    return ok


def table_line(row: Row) -> str:
    """Returns a row of the table; what would make the job fail is marked, and what warns."""
    mark = "FAILS" if not row.ok else "WARNS" if row.warns else ""
    return f"{mark:<6}{row.part:<10}{row.item:<26}{row.value}"


if __name__ == "__main__":
    checked = take_program()
    define_flags(checked)
    app.run(lambda argv: main(checked))
