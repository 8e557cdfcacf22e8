"""The lines of the log that are shown."""

import logging

import pytest

from albert.core.files import PACKAGE
from albert.core.log import make_handler
from albert.distributed.launcher import say


@pytest.mark.parametrize(
    ("path", "level", "message", "shown"),
    [
        (f"{PACKAGE}/training/loop.py", "INFO", "step 1/2", True),
        ("/env/lib/python3.11/site-packages/tensorflow/a.py", "INFO", "Using config", False),
        ("/env/lib/python3.11/site-packages/tensorflow/a.py", "WARNING", "a is deprecated", False),
        ("/env/lib/python3.11/site-packages/tensorflow/a.py", "WARNING", "no memory", True),
        # A system's own packages, which an environment may use as well.
        ("/usr/lib/python3/dist-packages/tensorflow/a.py", "INFO", "Using config", False),
    ],
)
def test_the_log_shows_project_lines_and_useful_warnings(path, level, message, shown):
    record = logging.LogRecord("tensorflow", getattr(logging, level), path, 1, message, (), None)
    assert bool(make_handler().filter(record)) == shown


def test_names_in_files_of_others_do_not_control_the_terminal(capsys):
    record = logging.LogRecord("a", logging.INFO, "", 1, "x\33]0;title\7\ny \x9b", (), None)
    assert make_handler().format(record).endswith("x?]0;title?\ny ?")
    say("x\33[31m\ny")
    assert capsys.readouterr().err.endswith(": x?[31m y\n")
