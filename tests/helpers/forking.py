"""A process with TensorFlow imported, which forks once for every program that it runs.

Importing TensorFlow takes seconds, and most programs that tests run take less without it. Tests of
what depends on a new process (threads, signals, mpirun) start one.
"""

import atexit
import contextlib
import importlib
import json
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Seconds.
LONGEST = 240


class ForkingProcess:
    """The process; it starts at once and ends with the process that started it."""

    def __init__(self, *module: str):
        """Starts it; `module` is another module, with its arguments, that calls `serve`."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", *(module or ["tests.helpers.forking"])],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        command: list[str],
        cwd: pathlib.Path | None = None,
        env: dict | None = None,
        workers: Sequence[tuple[dict[str, str], Sequence[str]]] = (({}, ()),),
    ) -> subprocess.CompletedProcess:
        """Runs a program, given as its path and arguments, as `subprocess.run` would.

        Several `workers` run it together, each with additional variables and arguments. Their
        outputs are concatenated; the exit code is that of the first that failed.

        Raises:
          RuntimeError: the process has ended.
        """
        with tempfile.TemporaryDirectory() as folder:
            outputs = [
                [pathlib.Path(folder) / f"{name}-{rank}" for rank in range(len(workers))]
                for name in ("stdout", "stderr")
            ]
            request = {
                "commands": [[*command, *more] for _, more in workers],
                "cwd": str(cwd or os.getcwd()),
                "environments": [
                    {**(os.environ if env is None else env), **more} for more, _ in workers
                ],
                "outputs": [list(map(str, pair)) for pair in zip(*outputs, strict=True)],
            }
            answer = ""
            with contextlib.suppress(BrokenPipeError):
                print(json.dumps(request), file=self._process.stdin, flush=True)
                answer = self._process.stdout.readline()
            if not answer:
                code = self._process.wait()
                raise RuntimeError(f"the process that forks has ended, exit code {code}")
            texts = ("".join(path.read_text() for path in paths) for paths in outputs)
            return subprocess.CompletedProcess(command, int(answer), *texts)


def serve(prepare: Callable[[], object]) -> None:
    """Runs what standard input asks for and answers with the exit codes."""
    prepare()
    for line in sys.stdin:
        codes = [os.waitstatus_to_exitcode(os.waitpid(c, 0)[1]) for c in start(**json.loads(line))]
        print(next(filter(None, codes), 0), flush=True)


def import_what_programs_import() -> None:
    """Imports what most programs import, except Horovod, which is not always installed."""
    from albert.core import estimators

    assert estimators.Estimator, "imported when it is first used"
    for name in (
        "albert.preflight.checks",
        *(f"albert.tasks.{path.parent.name}.task" for path in ROOT.glob("albert/tasks/*/task.py")),
    ):
        importlib.import_module(name)


def start(
    commands: list[list[str]],
    cwd: str,
    environments: list[dict[str, str]],
    outputs: list[list[str]],
) -> list[int]:
    """Starts a program for every environment; returns the processes."""
    children = []
    for command, env, files in zip(commands, environments, outputs, strict=True):
        children.append(os.fork())
        if not children[-1]:
            os._exit(run(command, cwd, env, files))
    return children


def run(command: list[str], cwd: str, env: dict[str, str], outputs: list[str]) -> int:
    """Runs a program as a new Python process would, except that TensorFlow, when imported, has read
    the environment of the forking process; returns its exit code."""
    atexit._clear()
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
        for name in ("launcher", "collectives"):
            importlib.reload(sys.modules[f"albert.distributed.{name}"])
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
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    serve(import_what_programs_import)
