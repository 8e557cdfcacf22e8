"""Programs in forks of a server process that has imported TensorFlow.

Importing TensorFlow takes seconds, and most programs that tests run take less without it. Tests of
what depends on a new process (threads, signals, mpirun) start one.
"""

import atexit
import importlib
import multiprocessing
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Seconds.
LONGEST = 240
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["tests.helpers.preloaded"])


def run_forked(
    command: list[str],
    cwd: pathlib.Path | None = None,
    env: dict | None = None,
    workers: Sequence[tuple[dict[str, str], Sequence[str]]] = (({}, ()),),
) -> subprocess.CompletedProcess:
    """Runs a program, given as its path and arguments, as `subprocess.run` would.

    Several `workers` run it together, each with additional variables and arguments. Their outputs
    are concatenated; the exit code is that of the first that failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for rank, (variables, arguments) in enumerate(workers):
            environment = {**(os.environ if env is None else env), **variables}
            outputs = [f"{folder}/{name}-{rank:03}" for name in ("stdout", "stderr")]
            given = [*command, *arguments], cwd or os.getcwd(), environment, outputs
            processes.append(_SERVER.Process(target=_run, args=given))
            processes[-1].start()
        for process in processes:
            process.join()
        code = next((process.exitcode for process in processes if process.exitcode), 0)
        texts = (
            "".join(path.read_text() for path in sorted(pathlib.Path(folder).glob(f"{name}-*")))
            for name in ("stdout", "stderr")
        )
        return subprocess.CompletedProcess(command, code, *texts)


def _run(command: list[str], cwd: str, env: dict[str, str], outputs: Sequence[str]) -> None:
    """Runs a program as a new Python process would, except that TensorFlow, when imported, has read
    the environment of the server."""
    signal.alarm(LONGEST)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    for descriptor, path in enumerate(outputs, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    sys.argv = command
    more = filter(None, env.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:1] = [os.path.dirname(command[0]), *more]
    for name in ("launcher", "collectives"):
        importlib.reload(importlib.import_module(f"albert.distributed.{name}"))
    atexit._clear()
    try:
        runpy.run_path(command[0], run_name="__main__")
    finally:
        atexit._run_exitfuncs()
