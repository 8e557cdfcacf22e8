"""Serves a trained model over HTTP: answers to questions on texts, or labels of texts, as JSON.

  python serve.py MODEL --port 8080
  curl -H 'Content-Type: application/json' http://127.0.0.1:8080/v1/answer \\
    -d '{"question": "Who wrote it?", "context": "Anna wrote it in a week."}'

MODEL is what --export_dir or --output_dir of a run has made. In a browser http://127.0.0.1:8080 is
a page to try it by hand. /openapi.json describes the interface, /health and /metrics are for
clusters. Another machine gets answers only with the token in the environment's ALBERT_TOKEN.
"""

from __future__ import annotations

import argparse
import os
import re
import sys

from albert import cli  # noqa: F401  First: it silences TensorFlow's import.
from albert.cli import app
from albert.cli.arguments import Parser
from albert.core import signals
from albert.core.errors import FlagError, UserError
from albert.core.log import LOG

TOKEN = "ALBERT_TOKEN"
_HOSTS = (
    "names, with commas, that a request's header Host may have; * for any (with a loopback --host "
    "localhost, 127.0.0.1 and [::1], else any)"
)
_NAME = re.compile(r"\*|[\w.-]+|\[[\da-f:]+\]")


def parse(argv: list[str]) -> argparse.Namespace:
    """Returns the arguments of a command line.

    Raises:
      FlagError: they are none.
    """
    parser = Parser(argv[0], __doc__)
    add = parser.add_argument
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


def main(args: argparse.Namespace) -> None:
    """Serves under the arguments until a signal comes.

    Raises:
      UserError: the model or the port cannot be used.
      Stopped: a signal has come; all that was taken is answered.
    """
    try:
        from albert.inference import load_model
        from albert.serving.server import HttpServer, hosts_of, is_local, listen, url_of
        from albert.serving.services import service_of
        from albert.serving.web import Api, Limits
    except ImportError as e:
        raise UserError(
            f"the package {e.name} is missing: run `make install` or `pip install -r "
            "requirements.txt`"
        ) from e
    limits = Limits(args.max_bytes, args.max_seconds, args.max_queue, args.max_batch)
    listener = listen(args.host, args.port)
    token = _token(args.host, is_local(listener))
    model = load_model(args.model)
    service, task = service_of(model), model.folder.says("task")
    service.warm_up()
    api = Api(service, task, limits, token, hosts_of(listener, args.allowed_hosts))
    # Short requests get their turn sooner beside the Python of a long one.
    sys.setswitchinterval(0.0005)
    server = HttpServer(api.app(), listener, 2 * limits.seconds)
    LOG.info("A model of %s at %s; Ctrl-C ends", task, url_of(listener))
    signals.note(patience=2.0)
    while server.serves(0.1) and not signals.noted():
        pass
    signals.take_up()
    server.stop()
    api.close()
    if signals.noted():
        raise signals.Stopped(signals.noted())


def _token(host: str, is_local: bool) -> str:
    """Returns the token of the environment; empty if there is none, and needs to be none.

    Raises:
      UserError: it is missing, or cannot be sent in a header.
    """
    token = os.environ.get(TOKEN, "")
    if not token and not is_local:
        raise FlagError(
            f"--host {host} is open to other machines: set {TOKEN} to what requests must have in "
            "their header Authorization: Bearer, or leave --host out"
        )
    if not all("!" <= character <= "~" for character in token):
        raise UserError(f"{TOKEN} must have letters, digits and signs of ASCII only, and no space")
    return token


if __name__ == "__main__":
    app.run(main, parse)
