"""Detects workers that no longer answer, because their process is stopped or their host hangs.

Without heartbeats, the other workers would wait silently and forever in their next collective
operation, and so would Horovod's check for stalled workers. Therefore every worker has a connection
to rank 0, over which a thread on each side sends a byte every few seconds.
"""

from __future__ import annotations

import secrets
import select
import socket
import threading
import time
from collections.abc import Callable

import tensorflow.compat.v1 as tf

from albert.distributed import collectives, exchange

# Seconds.
_TO_CONNECT = 10.0
_BETWEEN_BEATS = 2.0


def watch_workers(limit: float, end: Callable[[str], None]) -> None:
    """Starts to watch the other workers; all workers must call this after `connect`.

    After `limit` seconds of silence, it calls `end` with a message, which ends this process.
    """
    peers = _accepted() if collectives.is_chief() else _connected()
    threading.Thread(target=_watch, args=(peers, limit, end), daemon=True).start()


def _accepted() -> dict[socket.socket, str]:
    """Returns rank 0's connections, with the names of the workers at the other end."""
    peers, secret = dict[socket.socket, str](), secrets.token_hex(8)
    with socket.create_server(("", 0)) as server:
        server.settimeout(_TO_CONNECT)
        port = server.getsockname()[1]
        exchange.broadcast_object([_own_addresses(), port, secret, _name()])
        try:
            while len(peers) < collectives.size() - 1:
                connection, _ = server.accept()
                connection.settimeout(_TO_CONNECT)
                greeting = connection.recv(256).decode(errors="replace")
                if greeting.startswith(secret):
                    peers[connection] = greeting.removeprefix(secret)
        except OSError:
            tf.logging.warning(
                "%d of %d workers cannot be watched: they have no connection to rank 0",
                *(collectives.size() - 1 - len(peers), collectives.size()),
            )
    return peers


def _connected() -> dict[socket.socket, str]:
    """Returns another rank's connection to rank 0."""
    addresses, port, secret, name = exchange.broadcast_object(None)
    for address in addresses:
        try:
            connection = socket.create_connection((address, port), _TO_CONNECT / len(addresses))
            connection.sendall((secret + _name()).encode())
            return {connection: name}
        except OSError:
            continue
    return {}


def _name() -> str:
    return f"rank {collectives.rank()} on {socket.gethostname()}"


def _own_addresses() -> list[str]:
    """Returns the IPv4 addresses of this host's network interfaces, usually loopback first."""
    # Horovod requires this package, so a job of several workers has it.
    import psutil

    listed = [one for interface in psutil.net_if_addrs().values() for one in interface]
    return [one.address for one in listed if one.family == socket.AF_INET]


def _watch(peers: dict[socket.socket, str], limit: float, end: Callable[[str], None]) -> None:
    """Sends and receives bytes, and calls `end` if a worker is silent for too long."""
    heard = dict.fromkeys(peers, time.monotonic())
    interval = min(_BETWEEN_BEATS, limit / 3)
    before = time.monotonic()
    while peers:
        for connection in _beat(peers, heard):
            # That worker has ended; the launcher handles it.
            del peers[connection], heard[connection]
        time.sleep(interval)
        now = time.monotonic()
        if now - before > 2 * interval + 1:
            # This process was stopped meanwhile, so the silence shows nothing about the others.
            heard = dict.fromkeys(peers, now)
        before = now
        for connection, last in heard.items():
            if now - last > limit:
                end(f"{peers[connection]} has not answered for {now - last:.0f} s")


def _beat(
    peers: dict[socket.socket, str], heard: dict[socket.socket, float]
) -> list[socket.socket]:
    """Sends a byte to all, records which workers sent any, and returns the closed connections."""
    closed = []
    for connection in peers:
        try:
            connection.setblocking(False)
            if select.select([connection], [], [], 0)[0]:
                if not connection.recv(1 << 16):
                    raise ConnectionResetError
                heard[connection] = time.monotonic()
            connection.send(b".")
        except BlockingIOError:
            # The worker reads nothing, so it has not sent anything either.
            continue
        except OSError:
            closed.append(connection)
    return closed
