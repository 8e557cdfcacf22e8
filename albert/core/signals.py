"""Signals: a training ends after its step, with a checkpoint; all else ends at once.

Python runs a signal's handler between two instructions of the main thread only, which may spend
minutes in one call of TensorFlow or MPI. So a thread of its own, which every signal wakes, ends
the program where the main thread takes too long, and where somebody insists.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator

# SIGUSR1 is what mpirun passes on to all workers at once, without killing them soon after: the way
# in which a launcher asks for what SIGTERM asks for.
NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
# A terminal and a launcher may each pass the same signal on: within this time it is one.
_SAME_SECONDS = 0.5
# What the main thread gets to clean up when it is to end at once.
_CLEAN_UP_SECONDS = 5.0


class Stopped(BaseException):
    """A signal ends the program; like a `KeyboardInterrupt` it passes by what handles errors."""

    def __init__(self, number: int, where: str = "", by_all_workers: bool = False):
        """Says what stopped the program.

        Args:
          number: of the signal.
          where: what had been done, for the message.
          by_all_workers: whether all workers of the job end at the same step.
        """
        name = signal.Signals(number).name
        resumes = "; the same command resumes" if _state.resumes else ""
        super().__init__(f"stopped by {name}{where}{resumes}")
        self.exit_code = exit_code(number)
        self.by_all_workers = by_all_workers


def exit_code(number: int) -> int:
    """Returns the exit code of a program that a signal ended, as shells report it."""
    return 128 + (signal.SIGTERM if number == signal.SIGUSR1 else number)


class _State:
    """What the handler, the thread and the main program tell each other.

    Attributes:
      is_installed: whether the signals are handled here.
      unwinds: whether the main program catches `Stopped`.
      resumes: whether the same command goes on where this program is stopped.
      requested: the first signal's number.
      patience: seconds in which a training acknowledges a deferred signal; None to end at once.
      acknowledged: whether it has.
    """

    is_installed = False
    unwinds = False
    resumes = False
    requested: int | None = None
    patience: float | None = None
    acknowledged = False


_state = _State()


def install(resumes: bool = False) -> None:
    """Makes the signals end this program; to be called in its main thread.

    Args:
      resumes: whether the program goes on where it was when the same command is given again; once
        this has been said, it stays.
    """
    _state.resumes |= resumes
    if _state.is_installed:
        return
    _state.is_installed = True
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    for number in NUMBERS:
        # What is to survive a hang-up, as under `nohup`, goes on doing so.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _handle)
    threading.Thread(target=_watch, args=(receiver, sender), daemon=True).start()
    # A forked process leaves them to this one. None may come between the fork and that: it would
    # wake this process, of which the child shares the socket.
    os.register_at_fork(before=_block, after_in_parent=_unblock, after_in_child=_leave_to_parent)


def raise_stopped() -> None:
    """Lets a signal raise `Stopped` in the main thread from now on, so that it can clean up.

    Raises:
      Stopped: one was deferred and not acknowledged.
    """
    _state.unwinds = True
    _state.patience = None
    if _state.requested is not None and not _state.acknowledged:
        raise Stopped(_state.requested)


def defer(patience: float) -> None:
    """Defers the end of the program by a signal, for whoever can end at a better moment.

    Args:
      patience: seconds from a signal to `acknowledge`; without it the program ends then.
    """
    _state.patience = patience


def deferred() -> int | None:
    """Returns the number of the signal that was deferred, or None."""
    return _state.requested


def acknowledge() -> None:
    """Acknowledges that the deferred signal ends the program, however long that takes."""
    _state.acknowledged = True


def uninstall() -> None:
    """Makes the signals what they are by default: there is nothing left to stop."""
    _state.is_installed = False
    signal.set_wakeup_fd(-1)
    for number in NUMBERS:
        if signal.getsignal(number) == _handle:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Lets Ctrl-C end a training after its step, for the length of the block.

    For a process that goes on, such as a notebook's, and in its main thread. Where no training
    would take it up, and at the second time, it acts at once.

    Raises:
      KeyboardInterrupt: it came.
    """
    if _state.is_installed or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _note_interrupt)
    try:
        yield
    except Stopped as e:
        raise KeyboardInterrupt(str(e)) from None
    finally:
        signal.signal(signal.SIGINT, before)
        _state.requested, _state.patience, _state.acknowledged = None, None, False
        _state.unwinds = False


def _note_interrupt(number: int, frame: object) -> None:
    if _state.patience is None or _state.requested is not None:
        raise KeyboardInterrupt
    _state.requested = number


def reinstall() -> None:
    """Takes back the signals that a library has taken from this program."""
    for number in NUMBERS:
        if _state.is_installed and signal.getsignal(number) == _handle:
            signal.signal(number, _handle)


def _handle(number: int, frame: object) -> None:
    if _state.requested is None:
        _state.requested = number
    if not _state.unwinds:
        _end(number)
    if _state.patience is None:
        raise Stopped(number)


def _watch(receiver: socket.socket, sender: socket.socket) -> None:
    """Ends the program at the second signal, or if the first one has not done so in time."""
    first = None
    while True:
        number = receiver.recv(1)[0]
        if number not in NUMBERS or signal.getsignal(number) != _handle:
            continue
        if first is not None and time.monotonic() - first > _SAME_SECONDS:
            _end(number)
        if first is None:
            first = time.monotonic()
            patience = _CLEAN_UP_SECONDS if _state.patience is None else _state.patience
            if patience < math.inf:
                timer = threading.Timer(patience, _end_unless_acknowledged, [number])
                timer.daemon = True
                timer.start()


def _end_unless_acknowledged(number: int) -> None:
    if not _state.acknowledged:
        _end(number)


def _end(number: int) -> None:
    line = f"{os.path.basename(sys.argv[0])}: {Stopped(number)}\n"
    os.write(2, line.encode(errors="replace"))
    os._exit(exit_code(number))


def _block() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, NUMBERS)


def _leave_to_parent() -> None:
    uninstall()
    _unblock()
