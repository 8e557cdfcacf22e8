"""The report of `albert check`, how it is printed, and its rows about this machine."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import socket
import sys
from collections.abc import Iterator
from typing import NamedTuple

import tensorflow.compat.v1 as tf

from albert.core.errors import UserError
from albert.core.processes import usable_cores
from albert.core.text import printable
from albert.devices import device, habana, machine
from albert.distributed import collectives, launcher
from albert.precision.rules import ConversionPlan
from albert.settings.run_settings import RunSettings
from albert.training import job


class Row(NamedTuple):
    """A line of the report: a finding, or what is wrong and what to do.

    `ok`: whether the job can run with it; `warns`: whether the user probably wants something else.
    """

    section: str
    item: str
    value: str
    ok: bool = True
    warns: bool = False


class Report:
    """Collects rows; an error becomes a row with its message."""

    def __init__(self):
        self.rows: list[Row] = []
        self._section = ""

    @contextlib.contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Begins a section; an error becomes a row of the current one and ends dependent checks."""
        self._section = name
        try:
            yield
        except (UserError, OSError) as e:
            self.rows.append(Row(self._section, "error", " ".join(str(e).split()), ok=False))

    def next_section(self, name: str) -> None:
        """Begins the next section in the same block, whose checks depend on the earlier ones."""
        self._section = name

    def add(self, item: str, value: object, ok: bool = True, warns: bool = False) -> None:
        """Adds a row to the section."""
        self.rows.append(Row(self._section, item, str(value), ok, warns))

    @property
    def ok(self) -> bool:
        """Returns whether no row would make the job fail."""
        return all(row.ok for row in self.rows)


def describe_environment(report: Report, settings: RunSettings) -> None:
    """Adds rows about the machine, and checks the flags that all programs have."""
    with report.section("programs"):
        report.add("Python", platform.python_version())
        report.add("TensorFlow", tf.__version__)
        report.add("host", socket.gethostname())
        report.add("processor", machine.find_processor())
        report.add("cores", usable_cores())
        beside = os.path.dirname(sys.executable)
        mpirun = shutil.which("mpirun") or shutil.which("mpirun", path=beside)
        report.add("mpirun", mpirun or "none; `make horovod` installs it")
    with report.section("cards"):
        driver = habana.driver_version()
        report.add("habanalabs driver", driver or "none")
        for package in (habana.PACKAGE, "habana-horovod"):
            version = habana.installed_version(package)
            same = not (version and driver) or driver.startswith(version.rsplit(".", 1)[0])
            advice = "" if same else "; its version differs from the driver's"
            report.add(package, (version or "not installed") + advice)
        report.add("Gaudi cards", habana.count_cards())
        report.add("HPU", habana.why_unavailable() or "available")
        report.add("NVIDIA cards", device.count_nvidia_cards())
    with report.section("job"):
        job.begin_job(settings)
        report.add("device", "{} ({})".format(*device.chosen()))
        report.add("workers", collectives.size())


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
    if not launcher.is_first():
        if collectives.size() == 1:
            # The ranks are not connected. Rank 0 prints the errors that it also finds, and then
            # the launcher ends this rank.
            launcher.wait_for_rank_0()
            for row in by_rank[0]:
                if not row.ok:
                    print(f"{launcher.label()}: {table_line(row)}", flush=True)
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
