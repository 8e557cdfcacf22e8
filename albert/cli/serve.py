"""Serves a trained model over HTTP: answers to questions on texts, or labels of texts, as JSON.

  albert serve MODEL --port 8080
  curl -H 'Content-Type: application/json' http://127.0.0.1:8080/v1/answer \\
    -d '{"question": "Who wrote it?", "context": "Anna wrote it in a week."}'

MODEL is what --export_dir or --output_dir of a run has made. In a browser http://127.0.0.1:8080 is
a page to try it by hand. /openapi.json describes the interface, /health and /metrics are for
clusters. Another machine gets answers only with the token in the environment's ALBERT_TOKEN.
"""

from __future__ import annotations

import argparse
import re

from albert.cli.main import EntryPoint
from albert.core.arguments import Parser

_HOSTS = (
    "names, with commas, that a request's header Host may have; * for any (with a loopback --host "
    "localhost, 127.0.0.1 and [::1], else any)"
)
_NAME = re.compile(r"\*|[\w.-]+|\[[\da-f:]+\]")

ENTRY_POINT = EntryPoint("albert.commands.serve")


def parse(argv: list[str]) -> argparse.Namespace:
    """Returns the arguments of a command line.

    Raises:
      FlagError: they are none.
    """
    parser = Parser(argv[0], __doc__)
    add = parser.add_argument
    add("model", metavar="MODEL", help="folder of the model")
    add("--host", default="127.0.0.1", help="address to listen at (127.0.0.1)")
    add("--port", type=int, default=8080, help="0 takes a free one (8080)")
    add("--max_bytes", type=int, default=200_000, help="bytes of a request's body (200000)")
    add("--max_seconds", type=float, default=30.0, help="seconds until an answer (30)")
    add("--max_queue", type=int, default=64, help="requests that wait (64)")
    add("--max_batch", type=int, default=8, help="windows that are computed together (8)")
    add("--allowed_hosts", default="", help=_HOSTS)
    args = parser.parse_args(argv[1:])
    if not 0 <= args.port < 2**16:
        parser.error("--port must be below 65536")
    for name in ("max_bytes", "max_seconds", "max_queue", "max_batch"):
        # A month is no limit any more; what is not a number is smaller than nothing.
        if not 0 < getattr(args, name) < 2**31:
            parser.error(f"--{name} must be positive")
    args.allowed_hosts = [name for name in args.allowed_hosts.lower().split(",") if name]
    for name in args.allowed_hosts:
        if not _NAME.fullmatch(name):
            parser.error(f"--allowed_hosts has {name!r}, which is no name of a host without a port")
    return args
