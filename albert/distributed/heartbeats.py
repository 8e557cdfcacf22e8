"""Detects workers that no longer answer, because their process is stopped or their host hangs.

Without heartbeats, the other workers would wait silently and forever in their next collective
operation, and so would Horovod's check for stalled workers. Therefore every worker has a connection
to rank 0, over which a thread on each side sends a byte every few seconds.
"""

from __future__ import annotations

import secrets
import socket
import threading
import time

import tensorflow.compat.v1 as tf

from albert.distributed import collectives, exchange, launcher

# Seconds.
_TO_CONNECT = 10.0
_BETWEEN_BEATS = 2.0


def watch_workers(limit: float) -> None:
    """Starts to watch the other workers; all workers must call this after `connect`.

    After `limit` seconds of silence, the program ends with an error that names the worker.
    """
    for connection, name in (_accepted() if collectives.is_chief() else _connected()).items():
        threading.Thread(target=_watch, args=(connection, name, limit), daemon=True).start()


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


def _watch(connection: socket.socket, name: str, limit: float) -> None:
    """Exchanges bytes with a worker until it ends, which the launcher handles, or is silent."""
    pause, silent = min(_BETWEEN_BEATS, limit / 3), 0.0
    connection.settimeout(pause)
    # It counts waits, because a clock would also count the time for which this process is stopped.
    while silent < limit:
        try:
            connection.sendall(b".")
            if not connection.recv(1 << 16):
                return
            silent = 0.0
            time.sleep(pause)
        except TimeoutError:
            silent += pause
        except OSError:
            return
    launcher.fail(
        f"{name} has not answered for {silent:.0f} s (--stall_seconds): its process or host hangs "
        "or is stopped; start the job again to resume",
        1,
    )
