"""Serves a trained model over HTTP; it answers questions about texts or labels texts, as JSON.

  albert serve MODEL --port 8080
  curl -H 'Content-Type: application/json' http://127.0.0.1:8080/v1/answer \\
    -d '{"question": "Who wrote it?", "context": "Anna wrote it in a week."}'

MODEL is the --output_dir of a run, an export, or a folder of transformers with a head, also by its
name on the Hugging Face hub. Open http://127.0.0.1:8080 in a browser to try the model by hand.
/health and /metrics are for clusters. To accept requests from other machines, set the environment
variable ALBERT_TOKEN to a token that the requests must carry.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping
from typing import Any

from albert.cli.model_flags import add_model_flags, model_of
from albert.core import signals
from albert.core.arguments import Parser
from albert.core.errors import FlagError, UserError, optional
from albert.core.log import LOG
from albert.tasks.glue.settings import CUSTOM

_HOSTS = (
    "values to accept in a request's Host header, separated by commas; * accepts any (default: "
    "localhost, 127.0.0.1 and [::1] with a loopback --host, otherwise any)"
)
_NAME = re.compile(r"\*|[\w.-]+|\[[\da-f:]+\]")

TOKEN = "ALBERT_TOKEN"


def parse(argv: list[str]) -> argparse.Namespace:
    """Parses a command line; raises a `FlagError` if the arguments are invalid."""
    parser = Parser(argv[0], __doc__)
    add = parser.add_argument
    add("model", metavar="MODEL", help="export, --output_dir of a run, or folder of transformers")

    def add_with_default(name: str, kind: type, default: object, text: str) -> None:
        add(name, type=kind, default=default, help=f"{text} (default: %(default)s)")

    add_with_default("--host", str, "127.0.0.1", "address to listen on")
    add_with_default("--port", int, 8080, "port to listen on; 0 picks a free one")
    add_with_default("--max_bytes", int, 200_000, "largest request body to accept, in bytes")
    add_with_default("--max_seconds", float, 30.0, "longest time for an answer, in seconds")
    add_with_default("--max_queue", int, 64, "largest number of requests that may wait")
    add_with_default("--max_batch", int, 8, "largest number of windows in a batch")
    add_model_flags(parser)
    add("--allowed_hosts", default="", help=_HOSTS)
    args = parser.parse_args(argv[1:])
    if not 0 <= args.port < 2**16:
        parser.error("--port must be below 65536")
    for name in ("max_bytes", "max_seconds", "max_queue", "max_batch"):
        # The upper bound is far beyond any use. NaN fails the comparison, too.
        if not 0 < getattr(args, name) < 2**31:
            parser.error(f"--{name} must be positive")
    args.allowed_hosts = [name for name in args.allowed_hosts.lower().split(",") if name]
    for name in args.allowed_hosts:
        if not _NAME.fullmatch(name):
            parser.error(f"--allowed_hosts has {name!r}; give names of hosts, without ports")
    return args


def main(args: argparse.Namespace) -> None:
    """Serves the model until a signal comes; raises `Stopped` after the last accepted request."""
    from albert.inference.loading import load_any

    with optional("prometheus-client", "starlette", "uvicorn"):
        from albert.serving.server import HttpServer, hosts_of, is_local, listen, url_of
        from albert.serving.services import service_of
        from albert.serving.web import Api, Limits
    limits = Limits(args.max_bytes, args.max_seconds, args.max_queue, args.max_batch)
    listener = listen(args.host, args.port)
    token = _token(args.host, is_local(listener))
    model = load_any(*model_of(args))
    service, task = service_of(model), task_of(model.folder.description)
    service.warm_up()
    computing = {"engine": model.folder.engine, "precision": model.folder.encoder_precision}
    hosts = hosts_of(listener, args.allowed_hosts)
    app = Api(service, task, limits, token, hosts, computing).app()
    # With a shorter interval, short requests wait less for the Python code of a long one.
    sys.setswitchinterval(0.0005)
    server = HttpServer(app, listener, 2 * limits.seconds)
    LOG.info("Serving a model for %s at %s; press Ctrl-C to end", task, url_of(listener))
    signals.defer(patience=2.0)
    while server.serves(0.1) and not signals.deferred():
        pass
    signals.acknowledge()
    server.stop()
    if number := signals.deferred():
        raise signals.Stopped(number)


def task_of(about: Mapping[str, Any]) -> str:
    """Returns the task in a model's description; that of your own table is not called "glue"."""
    return "classify" if about.get("task_name") == CUSTOM else about.get("task", "embeddings")


def _token(host: str, is_local: bool) -> str:
    """Returns the token in the environment, "" only if local; raises a `UserError` if invalid."""
    token = os.environ.get(TOKEN, "")
    if not token and not is_local:
        raise FlagError(
            f"--host {host} is open to other machines: set {TOKEN} to a token that requests must "
            "send in the header Authorization: Bearer, or remove --host"
        )
    if not all("!" <= character <= "~" for character in token):
        raise UserError(f"{TOKEN} must consist of printable ASCII characters, without spaces")
    return token
