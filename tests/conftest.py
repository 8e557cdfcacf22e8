"""Configures how pytest runs the tests; shared fixtures are in `tests/helpers/fixtures.py`."""

import gc
import os
import signal

import hypothesis
import pytest

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.
from tests.helpers import needs
from tests.helpers.forking import ROOT

pytest.register_assert_rewrite("tests.helpers.golden", "tests.helpers.squad_head")
pytest_plugins = ["tests.helpers.download", "tests.helpers.fixtures"]

# The same examples every time where a failure must come from the change being tested; other runs
# find more.
hypothesis.settings.register_profile(
    "tests", deadline=None, derandomize=os.environ.get("CI") == "true"
)
hypothesis.settings.load_profile("tests")

# Loaded models compute in float32 on every processor, unless a test asks for bfloat16.
os.environ.setdefault("TF_BF16_CONVERSION", "0")

# A TensorFlow session that a test left open, and a forked child collects, ends the child.
os.register_at_fork(after_in_child=gc.freeze)

# Tests run in the background (`nohup`, `&` in a script) may have these ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="run the tests of `make test`")
    parser.addoption("--rest", action="store_true", help="run the others")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    needs.fail_in_ci((yield).get_result(), item.config.option.quick)


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    needs.fail_in_ci((yield).get_result(), collector.config.option.quick)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = needs.lines_of_skipped(terminalreporter.getreports("skipped"))
    if lines:
        terminalreporter.section("not run")
        terminalreporter.line("\n".join(lines))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts whole runs first: as the last test, one of them would leave a core idle."""
    items.sort(key=lambda item: item.path.parent != ROOT / "tests")
    if config.option.rest:
        config.hook.pytest_deselected(items=[item for item in items if needs.is_quick(item)])
        items[:] = [item for item in items if not needs.is_quick(item)]
    needs.skip_what_is_missing(items, config.option.quick)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Names a test only after short text: the bytes of a zip file differ from second to second."""
    if isinstance(val, bytes) or (isinstance(val, str) and len(val) > 80):
        return argname
    return None
