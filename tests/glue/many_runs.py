"""Runs run_classifier.py several times in one process, which starts only once.

python -m tests.glue.many_runs < RUNS, a JSON list of lists of flags. Prints as JSON, for each of
them, the exit code and the error, or 0 and "".
"""

from __future__ import annotations

import json
import sys

import run_classifier
from runtime.errors import UserError
from runtime.flags import FLAGS


def outcome(flags: list[str]) -> tuple[int, str]:
    for name in FLAGS:
        FLAGS[name].unparse()
    FLAGS([sys.argv[0], *flags])
    try:
        run_classifier.main([])
    except UserError as e:
        return e.exit_code, str(e)
    return 0, ""


if __name__ == "__main__":
    json.dump([outcome(flags) for flags in json.load(sys.stdin)], sys.stdout)
