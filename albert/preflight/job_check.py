"""Checks a job before a card is booked: its files, flags, memory and duration."""

from __future__ import annotations

import json

from albert.core.errors import FlagError
from albert.core.text import printable
from albert.devices import device
from albert.distributed import collectives, exchange
from albert.precision.rules import ConversionPlan
from albert.preflight.checks import (
    Checked,
    describe_checkpoints,
    describe_data,
    describe_downloads,
    describe_memory,
    describe_missing,
    describe_precision,
    describe_training,
    describe_variables,
    training_step,
)
from albert.preflight.duration import describe_duration, measure
from albert.preflight.report import Report, Row, describe_environment
from albert.preflight.settings import CheckSettings
from albert.preflight.speed import describe_speed
from albert.settings.run_settings import RunSettings
from albert.training.job import configure_habana
from albert.training.output_folder import split_settings
from albert.training.task import Task

# The last line of the report, for success and for failure.
_JOB_VERDICTS = "the job can run", "the job would fail"
_FILE_VERDICTS = "", "start the job with --download_only, then check it again"
_MACHINE_VERDICTS = "the machine is ready; add a job's flags to check the job", "jobs would fail"


def check(
    task_class: type[Task] | None, job: RunSettings, settings: CheckSettings, name: str
) -> bool:
    """Prints the report of all ranks; returns whether the run would succeed.

    Without a task, it checks only the machine. The only run of a job has the name "".
    """
    report = Report()
    if settings.estimate and settings.device_memory:
        raise FlagError(
            "--estimate measures this machine, and --device_memory is for another one; pass one of "
            "them"
        )
    if name:
        with report.section("run"):
            report.add("name", name)
    describe_environment(report, job)
    is_downloaded, checked = False, None
    if task_class:
        is_downloaded = not describe_downloads(report, task_class, job)
        if is_downloaded:
            describe_missing(report, task_class, job)
        checked = describe_input(report, task_class, job) if report.ok else None
    connect(report, checked)
    plan = describe_graph(report, checked, settings) if checked and report.ok else None
    # Either all ranks take part in the measurement, or none.
    if settings.estimate and all(exchange.all_gather_objects(report.ok)) and checked:
        measured = measure(checked)
        if collectives.is_chief():
            describe_duration(report, checked, measured)
    if settings.measure and checked and report.ok and collectives.is_chief():
        describe_speed(report, checked.task)
    by_rank = [[Row(*row) for row in rows] for rows in exchange.all_gather_objects(report.rows)]
    verdicts = _MACHINE_VERDICTS
    if task_class:
        verdicts = _JOB_VERDICTS if is_downloaded else _FILE_VERDICTS
    shown = plan if settings.bf16 else None
    # The objects of several runs are one line each.
    return print_reports(by_rank, shown, verdicts, settings.json, indent=None if name else 2)


def describe_input(report: Report, task_class: type[Task], settings: RunSettings) -> Checked | None:
    """Adds the task's files and its output folder; returns the task, or None if it has errors."""
    with report.section("model"):
        checked = Checked(task_class(settings))
        for item, value in checked.task.describe():
            report.add(item, value)
        report.next_section("data")
        describe_data(report, checked)
        report.next_section("training")
        describe_training(report, checked)
        return checked
    return None


def connect(report: Report, checked: Checked | None) -> None:
    """Loads the device, waits for the other ranks and compares settings, as the job would."""
    with report.section("job"):
        if checked:
            configure_habana(checked.task)
        device.prepare()
    collectives.connect(on_cpu=device.kind() == "cpu")
    if all(exchange.all_gather_objects(report.ok)) and checked:
        task = checked.task
        with report.section("job"):
            for split in task.splits:
                contents = checked.contents(split)
                exchange.check_equal_on_all_workers(split_settings(task, split, contents))
            if checked.steps:
                checked.resume_from(exchange.broadcast_object(checked.begun))
    with report.section("programs"):
        report.add("Horovod", collectives.description())


def describe_graph(
    report: Report, checked: Checked, settings: CheckSettings
) -> ConversionPlan | None:
    """Adds the graph of a training step; returns its precision plan if it is requested."""
    with report.section("model"):
        step = training_step(checked)
        describe_variables(report, checked, step.op.graph)
        report.next_section("memory")
        describe_memory(report, checked, step, settings.device_memory)
        report.next_section("training")
        describe_checkpoints(report, checked, step)
        report.next_section("precision")
        return describe_precision(report, checked, uses_shipped=settings.bf16)
    return None


def print_reports(
    by_rank: list[list[Row]],
    plan: ConversionPlan | None,
    verdicts: tuple[str, str],
    as_json: bool,
    indent: int | None,
) -> bool:
    """Prints rank 0's rows and the differing rows of other ranks; returns whether all are ok.

    `verdicts` is the last line, for success and for failure. With `as_json`, it prints all rows as
    JSON, in one line if `indent` is None. `plan` has the operations in low precision, if requested.
    """
    ok = all(row.ok for rows in by_rank for row in rows)
    if not collectives.is_first():
        if collectives.size() == 1:
            # The ranks are not connected. Rank 0 prints the errors that it also finds, and then
            # the launcher ends this rank.
            collectives.wait_for_rank_0()
            for row in by_rank[0]:
                if not row.ok:
                    print(f"{collectives.label()}: {table_line(row)}", flush=True)
        return ok
    if as_json:
        ranks = [[row._asdict() for row in rows] for rows in by_rank]
        planned = plan and plan.as_dict()
        report = {"ok": ok, "ranks": ranks, "bf16_plan": planned}
        print(json.dumps(report, indent=indent), flush=True)
        return ok
    sections = list(dict.fromkeys(row.section for row in by_rank[0]))
    for row in sorted(by_rank[0], key=lambda row: sections.index(row.section)):
        print(table_line(row))
    for rank, rows in enumerate(by_rank[1:], start=1):
        for row in rows:
            if row not in by_rank[0]:
                print(f"rank {rank}: {table_line(row)}")
    for line in plan.table() if plan else []:
        print(line)
    print(verdicts[not ok], flush=True)
    return ok


def table_line(row: Row) -> str:
    """Returns a row as a line of the table, with a mark for errors and warnings."""
    mark = "FAILS" if not row.ok else "WARNS" if row.warns else ""
    return printable(f"{mark:<6}{row.section:<10}{row.item:<26}{row.value}")
