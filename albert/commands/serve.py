"""Serves a trained model over HTTP: answers to questions on texts, or labels of texts, as JSON."""

from __future__ import annotations

import argparse
import os
import sys

from albert.core import signals
from albert.core.errors import FlagError, UserError
from albert.core.log import LOG

TOKEN = "ALBERT_TOKEN"


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
            f"the package {e.name} is missing: run `make install`, or `pip install "
            "'albert-tensorflow[serve]'`"
        ) from e
    limits = Limits(args.max_bytes, args.max_seconds, args.max_queue, args.max_batch)
    listener = listen(args.host, args.port)
    token = _token(args.host, is_local(listener))
    model = load_model(args.model)
    service, task = service_of(model), model.folder.value("task")
    service.warm_up()
    api = Api(service, task, limits, token, hosts_of(listener, args.allowed_hosts))
    # Short requests get their turn sooner beside the Python of a long one.
    sys.setswitchinterval(0.0005)
    server = HttpServer(api.app(), listener, 2 * limits.seconds)
    LOG.info("A model of %s at %s; Ctrl-C ends", task, url_of(listener))
    signals.defer(patience=2.0)
    while server.serves(0.1) and not signals.deferred():
        pass
    signals.acknowledge()
    server.stop()
    api.close()
    if number := signals.deferred():
        raise signals.Stopped(number)


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
