"""Serves a trained model over HTTP; it answers questions about texts or labels texts, as JSON."""

from __future__ import annotations

import argparse
import os
import sys

from albert.core import signals
from albert.core.errors import FlagError, UserError
from albert.core.log import LOG
from albert.core.optional import optional

TOKEN = "ALBERT_TOKEN"


def main(args: argparse.Namespace) -> None:
    """Serves the model until a signal comes; then raises `Stopped` when it has answered all.

    Raises a `UserError` if the model or the port cannot be used.
    """
    from albert.inference import load_model

    with optional("prometheus-client", "starlette", "uvicorn"):
        from albert.serving.server import HttpServer, hosts_of, is_local, listen, url_of
        from albert.serving.services import service_of
        from albert.serving.web import Api, Limits
    limits = Limits(args.max_bytes, args.max_seconds, args.max_queue, args.max_batch)
    listener = listen(args.host, args.port)
    token = _token(args.host, is_local(listener))
    model = load_model(args.model, args.engine)
    service, task = service_of(model), model.folder.value("task")
    service.warm_up()
    api = Api(service, task, limits, token, hosts_of(listener, args.allowed_hosts))
    # With a shorter interval, short requests wait less for the Python code of a long one.
    sys.setswitchinterval(0.0005)
    server = HttpServer(api.app(), listener, 2 * limits.seconds)
    LOG.info("Serving a model for %s at %s; press Ctrl-C to end", task, url_of(listener))
    signals.defer(patience=2.0)
    while server.serves(0.1) and not signals.deferred():
        pass
    signals.acknowledge()
    server.stop()
    api.close()
    if number := signals.deferred():
        raise signals.Stopped(number)


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
