"""Handling of signals: a training ends after its step, with a checkpoint; others end at once.

Python runs a signal handler only between two instructions of the main thread, which may spend
minutes in one call of TensorFlow or MPI. Therefore a separate thread, which every signal wakes,
ends the program if the main thread takes too long or if a second signal comes.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator

# mpirun forwards SIGUSR1 to all workers at once and, unlike after SIGTERM, does not kill them soon
# after. Launchers send it to mean the same as SIGTERM.
NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
# From Linux's <sys/prctl.h>: the signal that this process gets when its parent ends.
_PR_SET_PDEATHSIG = 1
# A terminal and a launcher may both forward the same signal. Within this time, it counts as one.
_SAME_SECONDS = 0.5
# The time that the main thread has to clean up before the program ends.
_CLEAN_UP_SECONDS = 5.0


class Stopped(BaseException):
    """A signal ends the program; like `KeyboardInterrupt`, it is not an `Exception`."""

    def __init__(self, number: int, where: str = "", by_all_workers: bool = False):
        """Takes the progress, and whether all workers of the job end at the same step."""
        name = signal.Signals(number).name
        resumes = f"; the same command{_state.changed} resumes" if _state.resumes else ""
        super().__init__(f"stopped by {name}{where}{resumes}")
        self.exit_code = exit_code(number)
        self.by_all_workers = by_all_workers


def exit_code(number: int) -> int:
    """Returns the exit code with which shells report a program that a signal ended."""
    return 128 + (signal.SIGTERM if number == signal.SIGUSR1 else number)


class _State:
    """The state that the handler, the thread and the main program share."""

    is_installed = False
    unwinds = False  # whether the main program catches `Stopped`
    resumes = False  # whether the same command resumes the work of this program
    changed = ""  # how the command must change for that, such as " without --flag"
    requested: int | None = None  # the number of the first signal
    # Seconds that a training has to acknowledge a deferred signal; None to end at once.
    patience: float | None = None
    acknowledged = False


_state = _State()


def install(resumes: bool = False) -> None:
    """Makes the signals end this program; call it in the main thread.

    `resumes`: whether the same command resumes the work; later calls cannot unset it.
    """
    _state.resumes |= resumes
    if _state.is_installed:
        return
    _state.is_installed = True
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    for number in NUMBERS:
        # A signal that is ignored, as SIGHUP is under `nohup`, stays ignored.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _handle)
    threading.Thread(target=_watch, args=(receiver, sender), daemon=True).start()
    # A forked process leaves the signals to this one. They are blocked until it has done so,
    # because it shares the socket and would wake this process.
    block = functools.partial(signal.pthread_sigmask, signal.SIG_BLOCK, NUMBERS)
    unblock = functools.partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, NUMBERS)
    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=uninstall)
    os.register_at_fork(after_in_child=unblock)


def allow_resuming() -> None:
    """Makes messages say that the same command resumes the work of this program."""
    _state.resumes = True


def resume_without(flag: str) -> None:
    """Makes messages say that the same command resumes without a flag; "" if it can be repeated."""
    _state.changed = f" without {flag}" if flag else ""


def raise_stopped() -> None:
    """Makes signals raise `Stopped` in the main thread from now on; raises it for earlier ones."""
    _state.unwinds = True
    _state.patience = None
    if _state.requested is not None and not _state.acknowledged:
        raise Stopped(_state.requested)


def defer(patience: float) -> None:
    """Defers signals until `acknowledge`, or at most for `patience` seconds; then they end it."""
    _state.patience = patience


def deferred() -> int | None:
    """Returns the number of the deferred signal, or None."""
    return _state.requested


def acknowledge() -> None:
    """Acknowledges the deferred signal: the program will end, however long that takes."""
    _state.acknowledged = True


def uninstall() -> None:
    """Restores the default handlers, because there is nothing left to stop."""
    _state.is_installed = False
    signal.set_wakeup_fd(-1)
    for number in NUMBERS:
        if signal.getsignal(number) == _handle:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Makes Ctrl-C in the block end a training after its step, then raise a `KeyboardInterrupt`.

    It is for a process that continues afterwards, such as a notebook, and has an effect only in the
    main thread, and only if Ctrl-C has Python's own handler. Outside a training, and when pressed a
    second time, Ctrl-C acts at once.
    """
    if _state.is_installed or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, _note_interrupt)
    try:
        yield
    except Stopped as e:
        raise KeyboardInterrupt(str(e)) from None
    finally:
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, before)
        _state.requested, _state.patience, _state.acknowledged = None, None, False
        _state.unwinds = False


def _note_interrupt(number: int, frame: object) -> None:
    if _state.patience is None or _state.requested is not None:
        raise KeyboardInterrupt
    _state.requested = number


def follow_parent(parent: int) -> None:
    """Makes Linux kill this process when its parent ends; ends it if that has happened."""
    # macOS has no such call, and by default no worker processes.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def reinstall() -> None:
    """Installs the signal handlers again after a library has replaced them."""
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
    """Ends the program at the second signal, or if it has not ended in time after the first."""
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
