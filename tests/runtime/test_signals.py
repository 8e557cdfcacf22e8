"""How signals end a process: a small one of its own, without TensorFlow."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from tests.helpers.forking import ROOT

# What each program begins with; the patience is as short as tests are.
BEGINNING = """
import ctypes, math, os, signal, sys, threading, time
from runtime import signals
sys.argv[0] = "program.py"
signals._CLEAN_UP_SECONDS = 1.0
def ready():
    print("ready", flush=True)
def work(seconds=1000):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)
def hang():
    # In one call that no signal interrupts.
    lock = ctypes.create_string_buffer(64)
    ctypes.CDLL(None).pthread_mutex_lock(lock)
    threading.Timer(0.3, ready).start()
    ctypes.CDLL(None).pthread_mutex_lock(lock)
signals.install(resumes=True)
"""
CATCHING = """
signals.raise_stopped()
try:
    {}
except signals.Stopped as e:
    print(e, e.exit_code)
finally:
    print("cleaned up", flush=True)
"""


def start(program: str, **options) -> subprocess.Popen:
    """A program that has said that it is ready for a signal."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", BEGINNING + program],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    assert process.stdout.readline() == "ready\n", process.stderr.read()
    return process


def end(process: subprocess.Popen, *numbers: int, apart: float = 0.7) -> tuple[int, str, str]:
    """Sends signals; the exit code and what was printed."""
    for count, number in enumerate(numbers):
        time.sleep(apart if count else 0)
        process.send_signal(number)
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129), (signal.SIGUSR1, 143)],
)
def test_before_the_program_can_clean_up(number, code):
    result = end(start("ready(); work()"), number)
    line = f"program.py: stopped by {number.name}; the same command resumes\n"
    assert result == (code, "", line)


def test_a_program_that_cannot_resume_does_not_say_so():
    process = start("signals._state.resumes = False; signals.install(); ready(); work()")
    assert end(process, signal.SIGINT) == (130, "", "program.py: stopped by SIGINT\n")


def test_the_main_thread_cleans_up():
    code, out, err = end(start(CATCHING.format("ready(); work()")), signal.SIGTERM)
    assert (code, err) == (0, "")
    assert out == "stopped by SIGTERM; the same command resumes 143\ncleaned up\n"


def test_a_main_thread_that_does_not_come_back():
    result = end(start(CATCHING.format("hang()")), signal.SIGTERM)
    assert result == (143, "", "program.py: stopped by SIGTERM; the same command resumes\n")


def test_noted_and_taken_up():
    program = """
signals.note(0.5)
ready()
while not signals.noted():
    work(0.01)
signals.take_up()
work(1.0)
print("saved", signals.noted())
"""
    assert end(
        start(program.replace("signals.note", "signals.raise_stopped(); signals.note", 1)),
        signal.SIGINT,
    ) == (0, "saved 2\n", "")


def test_noted_and_not_taken_up_in_time():
    program = "signals.raise_stopped(); signals.note(0.3); ready(); work()"
    code, out, err = end(start(program), signal.SIGTERM)
    assert code == 143 and "stopped by SIGTERM" in err


def test_noted_and_not_taken_up_until_the_end():
    program = CATCHING.format("signals.note(math.inf); ready(); work(0.5); signals.raise_stopped()")
    code, out, err = end(start(program), signal.SIGTERM)
    assert "stopped by SIGTERM; the same command resumes 143" in out


def test_the_second_one_ends_at_once():
    program = "signals.raise_stopped(); signals.note(math.inf); ready(); work()"
    code, out, err = end(start(program), signal.SIGTERM, signal.SIGINT)
    assert code == 130 and "stopped by SIGINT" in err


def test_the_same_one_twice_within_a_moment_is_one():
    program = """
signals.raise_stopped()
signals.note(math.inf)
ready()
work(1.0)
print("went on", signals.noted())
"""
    code, out, err = end(start(program), signal.SIGINT, signal.SIGTERM, apart=0.05)
    assert (code, out) == (0, "went on 2\n")


def test_a_hang_up_that_is_to_be_survived():
    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    process = start("ready(); work(0.5); print('went on')", preexec_fn=ignore)
    assert end(process, signal.SIGHUP) == (0, "went on\n", "")


def test_forked_processes_end_as_by_default():
    program = """
child = os.fork()
if not child:
    work()
ready()
os.kill(child, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), signals.noted())
"""
    assert end(start(program)) == (0, "-15 None\n", "")


def test_what_only_imports_the_package_deals_with_signals_itself(tmp_path):
    script = tmp_path / "run_mine.py"
    script.write_text(
        "import signal, runtime; print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)"
    )
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(ROOT))}
    done = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
