"""Runs the programs in a forked process, in a new one, or as several workers."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest.mock
from collections.abc import Callable, Iterator

from albert.cli.check import find_task
from tests.helpers.forking import LONGEST, ROOT, run_forked


def at_step(fault: str, step: int, command: list[str], rank: int = 0) -> list[str]:
    """Returns a command with a fault of `tests.programs.at_step` in one of its workers."""
    python, *program = command
    return [python, str(ROOT / "tests/programs/at_step.py"), fault, str(step), str(rank), *program]


def albert(*words: object) -> list[str]:
    return [sys.executable, str(ROOT / "albert"), *map(str, words)]


def command_of(name: str) -> list[str]:
    """Returns the command of a reference program, or of `albert`."""
    path = ROOT / f"{name}.py"
    return [sys.executable, str(path)] if path.exists() else albert(name)


def run(command: list[str], **kwargs) -> subprocess.CompletedProcess:
    """Runs a command and keeps its output; the project's programs in a forked process."""
    python, program, *_ = [*command, ""]
    if python == sys.executable and program.endswith((".py", "albert")):
        return run_forked(command[1:], **kwargs)
    return subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, **kwargs)


def succeed(command: list[str], **kwargs) -> str:
    result = run(command, **kwargs)
    assert result.returncode == 0, result.stderr
    return result.stderr


def without_tensorflow(text: str) -> str:
    """Removes the lines that TensorFlow 2.21 prints at any log level when it is imported."""
    own = r"^(WARNING: All log messages before absl::InitializeLog|I0000 .* port\.cc:\d+\] oneDNN)"
    return re.sub(own + r".*\n", "", text, flags=re.M)


def run_text(folder: pathlib.Path, text: str, *arguments: str) -> subprocess.CompletedProcess:
    """Runs the text of a program that imports the project, in a forked process."""
    (folder / "program.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return run([sys.executable, str(folder / "program.py"), *arguments], env=environment)


def fork(work: Callable[[], object]) -> int:
    """Forks a child that does some work and ends with its number, 0, or 103 after an error.

    Other children of this process, which tests may have at any time, are not waited for.
    """
    child = os.fork()
    if not child:
        try:
            os._exit(int(work() or 0) % 100)
        finally:
            os._exit(103)
    return child


def exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


MPIRUN = pathlib.Path(sys.executable).parent / "mpirun"


def under_mpirun(workers: int, command: list[str], *options: str) -> list[str]:
    """Returns a command for `workers` workers, on any number of cores and as any user."""
    placing = ["--oversubscribe", "--bind-to", "none", "--allow-run-as-root", *options]
    return [str(MPIRUN), "-np", str(workers), *placing, *command]


def run_as_workers(
    workers: int, command: list[str], *flags_of_last: str
) -> subprocess.CompletedProcess:
    """Runs a program of the project as `workers` forked processes that Horovod's Gloo connects.

    This is faster than mpirun, but all workers must end on their own.
    """
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.gloo_run import create_slot_env_vars
    from horovod.runner.http.http_server import RendezvousServer

    server = RendezvousServer(verbose=0)
    names = {"GLOO_RENDEZVOUS_ADDR": "127.0.0.1", "GLOO_RENDEZVOUS_PORT": str(server.start())}
    names |= {"GLOO_IFACE": "lo", "CONTROLLER": "gloo", "CPU_OPERATIONS": "gloo"}
    variables = {f"HOROVOD_{name}": value for name, value in names.items()}
    slots = get_host_assignments(parse_hosts(f"localhost:{workers}"), workers)
    server.init(slots)
    try:
        each = [({**variables, **create_slot_env_vars(slot)}, ()) for slot in slots]
        each[-1] = (each[-1][0], flags_of_last)
        return run_forked(command[1:], workers=each)
    finally:
        server.stop()


def processes_of(output_dir: pathlib.Path) -> list[str]:
    """Returns the processes that name the folder in a flag."""
    found = []
    for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if f"--output_dir={output_dir}\0" in file.read_text():
                found.append(file.parent.name)
    return found


def error_line(result: subprocess.CompletedProcess) -> str:
    """Returns the single line of an error; a traceback is a failure."""
    assert "Traceback" not in result.stderr, result.stderr
    lines = [line for line in result.stderr.splitlines() if ": error: " in line]
    assert len(lines) == 1, result.stderr
    return lines[0]


def assert_fails(result: subprocess.CompletedProcess, code: int, *parts: str) -> None:
    assert result.returncode == code, result.stderr
    line = error_line(result)
    for part in parts:
        assert part in line


def assert_stopped(
    result: subprocess.CompletedProcess, number: signal.Signals, folder: pathlib.Path
) -> int:
    """Fails unless a signal ended a training after a step that it saved, and returns that step."""
    assert result.returncode == 128 + number
    assert "Traceback" not in result.stderr
    line = rf": stopped by {number.name} at step (\d+) of \d+, which is saved; the same"
    (step,) = re.findall(line, result.stderr)
    # A single checkpoint to resume from, newer than all others.
    (newest,) = folder.glob("resume.ckpt-*.index")
    assert newest.stem == f"resume.ckpt-{step}"
    assert newest.stem in (folder / "checkpoint").read_text().splitlines()[0]
    assert not list(folder.glob(".saving*"))
    assert not processes_of(folder), "workers are left behind"
    return int(step)


def task_of(program: str) -> type:
    return find_task(f"{program}.py").load("task")


@contextlib.contextmanager
def simulated_workers(workers: int) -> Iterator[None]:
    """Makes this process one of some workers in the `with` block."""
    from albert.distributed import collectives

    worker = collectives._worker._replace(size=workers)
    with unittest.mock.patch.object(collectives, "_worker", worker):
        yield
