"""Locks between processes, on one machine or several with a common file system."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import filelock

from albert.core.errors import UserError
from albert.core.log import LOG

# A holder refreshes its claim every few seconds. One that has not done so for this long is taken
# for dead, so that a killed process keeps nobody waiting for longer; one of the same host not even
# that long, because its process is looked for.
_STALE_SECONDS = 20.0
_REFRESH_SECONDS = 4.0
# Within this time the claim of a dead process of this host is seen and removed.
_GLANCE_SECONDS = 0.5
# A job that is being ended has some minutes to write its last checkpoint, see `deploy/`.
_WAIT_SECONDS = 300.0

# What this process holds until `release_held`.
_held = contextlib.ExitStack()


@contextlib.contextmanager
def exclusive(path: str) -> Iterator[bool]:
    """Holds the lock `path.lock` for the length of the block; waits while another process has it.

    Yields whether it had to wait.

    The lock is a file that exists while it is held; an `flock` would be refused, or granted to
    everybody, by network volumes. If a living holder is taken for dead, two processes work at the
    same time: what the lock protects must be written atomically, so that this costs time only.
    """
    lock = _lease(path)
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        waited = _acquire(lock, path)
    except OSError as e:
        raise UserError(f"{path} cannot be written: {e.strerror}") from e
    try:
        yield waited
    finally:
        lock.release()


def remove_abandoned(path: str) -> None:
    """Removes the lock `path.lock` if the process that had it was killed."""
    if os.path.exists(path + ".lock"):
        with contextlib.suppress(filelock.Timeout, OSError), _lease(path).acquire(_GLANCE_SECONDS):
            pass


def hold_until_exit(path: str, what: str) -> None:
    """Takes the lock `path.lock` until `release_held`; waits some minutes for another holder.

    It is a lock like that of `exclusive`. Should this process be taken for dead and another
    one have the lock, this one ends at once, so that it writes nothing beside the other.

    Args:
      path: of the lock, without `.lock`.
      what: it protects, for messages, such as "--output_dir out".

    Raises:
      UserError: another process still has it after that time, or it cannot be written.
    """

    def end_if_taken(loss: filelock.LeaseCompromise) -> None:
        if loss.reason == "owner-changed":
            LOG.error(
                "%s was taken by %s while this process was paused; this one ends, and the same "
                "command resumes",
                what,
                _holder(lock),
            )
            os._exit(1)
        LOG.warning("%s is gone: another run can begin in %s", lock.lock_file, what)

    lock = _lease(path, on_compromise=end_if_taken)
    try:
        try:
            lock.acquire(timeout=_GLANCE_SECONDS)
        except filelock.Timeout:
            LOG.info(
                "%s is in use by %s; waiting up to %.0f s for its end",
                what,
                _holder(lock),
                _WAIT_SECONDS,
            )
            lock.acquire(timeout=_WAIT_SECONDS)
    except filelock.Timeout as e:
        raise UserError(
            f"{what} is still in use by {_holder(lock)}; run the same command again when that has "
            "ended, or give another folder"
        ) from e
    except OSError as e:
        raise UserError(f"{lock.lock_file} cannot be written: {e.strerror}") from e
    _held.callback(lock.release)


def release_held() -> None:
    """Releases what `hold_until_exit` has taken; to be called when the program ends."""
    _held.close()


def _lease(path: str, **options) -> filelock.SoftFileLease:
    return filelock.SoftFileLease(
        path + ".lock",
        lease_duration=_STALE_SECONDS,
        heartbeat_interval=_REFRESH_SECONDS,
        **options,
    )


def _holder(lock: filelock.SoftFileLease) -> str:
    """Says who has a lock, for people."""
    owner = lock.owner
    if owner is None:
        return "another process"
    # Behind the name of a container's host is its process namespace.
    host, _, _ = owner.hostname.partition("?")
    return f"process {owner.pid} on {host}"


def _acquire(lock: filelock.SoftFileLease, path: str) -> bool:
    try:
        lock.acquire(timeout=0)
        return False
    except filelock.Timeout:
        LOG.info("Waiting for another process that makes %s", path)
        lock.acquire()
        return True
