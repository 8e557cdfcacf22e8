"""A process with TensorFlow imported, which forks once for every program it is to run.

Importing TensorFlow takes seconds, and most programs that tests run take less without it. What is
particular to a process of its own (threads, signals, mpirun) is tested with one.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Seconds.
LONGEST = 240


class ForkingProcess:
    """The process; it is started at once and ends with the one that has started it."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.programs.forking"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self, command: list[str], cwd: pathlib.Path | None = None, env: dict | None = None
    ) -> subprocess.CompletedProcess:
        """Runs a program, given as its path and arguments, as `subprocess.run` would.

        Raises:
          RuntimeError: the process is no more.
        """
        with tempfile.TemporaryDirectory() as folder:
            outputs = [pathlib.Path(folder) / name for name in ("stdout", "stderr")]
            request = {
                "command": command,
                "cwd": str(cwd or os.getcwd()),
                "env": dict(os.environ if env is None else env),
                "outputs": list(map(str, outputs)),
            }
            code = int(self._answer(json.dumps(request)))
            return subprocess.CompletedProcess(command, code, *(o.read_text() for o in outputs))

    def _answer(self, request: str) -> str:
        """The line that the process answers a line with."""
        answer = ""
        with contextlib.suppress(BrokenPipeError):
            print(request, file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        if not answer:
            code = self._process.wait()
            raise RuntimeError(f"the process that forks has ended, exit code {code}")
        return answer


def serve() -> None:
    """Runs what standard input asks for and answers with the exit codes."""
    from runtime import estimators

    assert estimators.Estimator, "imported when it is first used"
    for line in sys.stdin:
        child = os.fork()
        if not child:
            os._exit(run(**json.loads(line)))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def run(command: list[str], cwd: str, env: dict[str, str], outputs: list[str]) -> int:
    """Runs a program almost as a Python of its own would; returns its exit code.

    Almost: what TensorFlow and other imported modules read from the environment when they are
    imported, they have read from that of the process that forks. `atexit` functions do not run.
    """
    signal.alarm(LONGEST)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, path in enumerate(outputs, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    sys.argv = command
    more = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:1] = [os.path.dirname(command[0]), *more]
    try:
        runpy.run_path(command[0], run_name="__main__")
        code = 0
    except SystemExit as e:
        code = 0 if e.code is None else e.code
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    serve()
