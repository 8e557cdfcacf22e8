"""Locks between processes on one machine, or on several machines with a shared file system."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import filelock

from albert.core.errors import UserError, reporting
from albert.core.files import check_local
from albert.core.log import LOG

# A holder refreshes its lock every few seconds. If it has not done so for this long, other
# processes assume that it is dead. They notice a dead process on the same host even sooner.
STALE_SECONDS = 20.0
REFRESH_SECONDS = 4.0
# Long enough to remove the lock of a dead process on this host. filelock waits 2 seconds for the
# name of a holder, which may have been killed before it wrote it.
_GLANCE_SECONDS = 2.5
# A job that is ending has a few minutes to write its last checkpoint, see `deploy/`.
WAIT_SECONDS = 300.0

# The locks that this process holds until `release_held`.
_held = contextlib.ExitStack()


@contextlib.contextmanager
def exclusive(path: str, waits: bool = True) -> Iterator[None]:
    """Waits for the lock `path.lock`, and holds it in the block.

    With `waits=False`, it raises a `UserError` instead if a live process holds the lock.

    The lock is a file that exists while the lock is held, because network volumes may refuse an
    `flock` or grant it to everyone. If a live holder is assumed dead, two processes work at the
    same time. Write the protected files atomically, so that this only costs time.
    """
    check_local(path, path)
    lock = _lease(path)
    with reporting(f"{path} cannot be written"):
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        try:
            lock.acquire(timeout=0 if waits else _GLANCE_SECONDS)
        except filelock.Timeout as e:
            if not waits:
                raise UserError(
                    f"another process is writing {path}; wait for it, or give another name"
                ) from e
            LOG.info("Waiting for another process that is making %s", path)
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


def hold_until_exit(path: str, what: str) -> None:
    """Takes the lock `path.lock` until `release_held`; waits a few minutes for another holder.

    It is like that of `exclusive`. If another process takes it because this one seemed dead, this
    process ends at once, so that the two never write at the same time. Messages name `what` it
    protects, such as "--output_dir out". Raises a `UserError` if it is still held or not writable.
    """

    def end_if_taken(loss: filelock.LeaseCompromise) -> None:
        if loss.reason == "owner-changed":
            LOG.error(
                "%s was taken over by %s while this process was paused. This process ends; run the "
                "same command again to resume",
                *(what, _holder(lock)),
            )
            os._exit(1)
        LOG.warning("The lock %s was removed: another run can start in %s", lock.lock_file, what)

    lock = _lease(path, on_compromise=end_if_taken)
    try:
        try:
            lock.acquire(timeout=_GLANCE_SECONDS)
        except filelock.Timeout:
            limit = f"waiting up to {WAIT_SECONDS:.0f} s until it ends"
            LOG.info("%s is in use by %s; %s", what, _holder(lock), limit)
            lock.acquire(timeout=WAIT_SECONDS)
    except filelock.Timeout as e:
        raise UserError(
            f"{what} is still in use by {_holder(lock)}; run the same command again when that "
            "process has ended, or give another folder"
        ) from e
    except OSError as e:
        raise UserError(f"{lock.lock_file} cannot be written: {e.strerror}") from e
    _held.callback(lock.release)


def release_held() -> None:
    """Releases the locks of `hold_until_exit`; call it when the program ends."""
    _held.close()


def _lease(path: str, **options) -> filelock.SoftFileLease:
    return filelock.SoftFileLease(
        path + ".lock", lease_duration=STALE_SECONDS, heartbeat_interval=REFRESH_SECONDS, **options
    )


def _holder(lock: filelock.SoftFileLease) -> str:
    """Returns a human-readable name of a lock's holder."""
    owner = lock.owner
    if owner is None:
        return "another process"
    # After the host name of a container, the lock also names the process namespace.
    host, _, _ = owner.hostname.partition("?")
    return f"process {owner.pid} on {host}"
