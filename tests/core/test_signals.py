"""The end of a process by a signal, with small programs without TensorFlow."""

import signal
import subprocess
import sys
from signal import SIGHUP, SIGINT, SIGTERM, SIGUSR1

import pytest

from albert.core import signals
from tests.helpers.forking import LONGEST, ROOT
from tests.helpers.running import run

# The beginning of each program: it prints its progress, and waits for a line from the test or a
# signal.
BEGINNING = """
import ctypes, math, os, signal, sys, threading, time
from albert.core import signals
sys.argv[0] = "program.py"
say = lambda *words: print(*words, flush=True)
def wait(is_over=lambda: False):
    while not is_over():
        time.sleep(0.01)
def hang():
    # In one call that no signal interrupts.
    lock = ctypes.create_string_buffer(64)
    ctypes.CDLL(None).pthread_mutex_lock(lock)
    threading.Timer(0.3, say, ["ready"]).start()
    ctypes.CDLL(None).pthread_mutex_lock(lock)
signals.install(resumes=True)
"""
CATCHING = """
signals.raise_stopped()
try:
    {}
except signals.Stopped as e:
    say(e, e.exit_code)
finally:
    say("cleaned up")
"""
TAKEN_UP = """
class Timer(threading.Timer):
    def start(self):
        timers.append(self)
timers, threading.Timer = [], Timer
signals.raise_stopped()
signals.defer(1.0)
say("ready")
wait(lambda: timers)
signals.acknowledge()
timers[0].function(*timers[0].args)
say("saved", signals.deferred())
"""
TWO = """
signals._SAME_SECONDS = {}
signals.raise_stopped()
signals.defer(math.inf)
say("ready")
wait(signals.deferred)
say("noted")
sys.stdin.readline()
wait(lambda: signals._SAME_SECONDS)
say("continued", signals.deferred())
"""
FORKING = """
child = os.fork()
child or wait()
say("ready")
sys.stdin.readline()
os.kill(child, signal.SIGTERM)
say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), signals.deferred())
"""


def stopped_by(number: signal.Signals, code: int) -> tuple[int, str, str]:
    return code, "", f"program.py: stopped by {number.name}; the same command resumes\n"


CAUGHT = 0, "stopped by SIGTERM; the same command resumes 143\ncleaned up\n", ""
# A program, the signals it gets, its exit code and its output.
CASES = {
    **{
        f"{number.name} at once": ("say('ready'); wait()", [number], stopped_by(number, code))
        for number, code in ((SIGTERM, 143), (SIGINT, 130), (SIGHUP, 129), (SIGUSR1, 143))
    },
    "it cannot resume, and does not say so": (
        "signals._state.resumes = False; signals.install(); say('ready'); wait()",
        [SIGINT],
        (130, "", "program.py: stopped by SIGINT\n"),
    ),
    "the main thread cleans up": (CATCHING.format("say('ready'); wait()"), [SIGTERM], CAUGHT),
    "the main thread does not come back": (
        "signals._CLEAN_UP_SECONDS = 0.1" + CATCHING.format("hang()"),
        [SIGTERM],
        stopped_by(SIGTERM, 143),
    ),
    "taken up, and then ending takes its time": (TAKEN_UP, [SIGINT], (0, "saved 2\n", "")),
    "not taken up in time": (
        "signals.raise_stopped(); signals.defer(0.1); say('ready'); wait()",
        [SIGTERM],
        stopped_by(SIGTERM, 143),
    ),
    "not taken up until the end": (
        CATCHING.format(
            "signals.defer(math.inf); say('ready'); wait(signals.deferred); signals.raise_stopped()"
        ),
        [SIGTERM],
        CAUGHT,
    ),
    "the second one ends it at once": (TWO.format(0), [SIGTERM, SIGINT], stopped_by(SIGINT, 130)),
    "the second one is the first, passed on once more": (
        TWO.format(1000),
        [SIGTERM, SIGINT],
        (0, "continued 15\n", ""),
    ),
    "forked processes end as by default": (FORKING, [], (0, "-15 None\n", "")),
}


def end(program: str, numbers: list[int], **options) -> tuple[int, str, str]:
    """Runs a program, signals it after each awaited word, and sends a line; returns its output."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", BEGINNING + program],
        cwd=ROOT,
        **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE),
        text=True,
        **options,
    )
    for word, number in zip(("ready\n", "noted\n"), numbers or [None], strict=False):
        assert process.stdout.readline() == word, process.stderr.read()
        if number:
            process.send_signal(number)
    out, err = process.communicate("go on\n", timeout=LONGEST)
    return process.returncode, out, err


@pytest.mark.parametrize("case", CASES)
def test_a_signal_ends_a_program_as_expected(case):
    program, numbers, expected = CASES[case]
    assert end(program, numbers) == expected


def test_an_ignored_hang_up_stays_ignored():
    program = "signals.reinstall(); say('ready'); sys.stdin.readline(); say('continued')"
    actual = end(program, [SIGHUP], preexec_fn=lambda: signal.signal(SIGHUP, signal.SIG_IGN))
    assert actual == (0, "continued\n", "")


def test_importing_the_package_installs_no_signal_handlers():
    text = "import signal, albert.cli; print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)"
    assert run([sys.executable, "-c", text], cwd=ROOT).stdout == "True\n"


@pytest.mark.parametrize("number", [SIGINT, SIGTERM])
def test_a_handler_of_the_user_stays(number):
    received = []
    handler = lambda number, frame: received.append(number)  # noqa: E731
    before = signal.signal(number, handler)
    try:
        with signals.interruptible():
            signals.defer(1.0)
            signal.raise_signal(number)
            assert signals.deferred() is None
        assert received == [number] and signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)
    # So does Python's own, except in the block.
    with signals.interruptible():
        assert signal.getsignal(SIGINT) is not signal.default_int_handler
    assert signal.getsignal(SIGINT) is signal.default_int_handler
