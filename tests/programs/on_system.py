"""Runs programs without the names and files that another system lacks.

python -m tests.programs.on_system SYSTEM PROGRAM.py [FLAG...]    SYSTEM is win32 or darwin

Typeshed, which mypy has, says which names each system has. Other packages are imported first: on
that system, users install the builds for it.
"""

import ast
import ctypes
import errno
import importlib
import multiprocessing
import os
import pathlib
import runpy
import sys
import tempfile
from collections.abc import Iterator
from unittest import mock

import mypy

STUBS = pathlib.Path(mypy.__file__).parent / "typeshed/stdlib"
POSIX = ("fcntl", "grp", "pwd", "readline", "resource", "termios")
FEW = ("filelock", "requests", "tqdm")
MORE = ("absl.app", "google_crc32c", "h11", "openvino", "safetensors.numpy", "sentencepiece")
MORE += ("starlette.applications", "tensorflow.compat.v1", "uvicorn")


def names_of(nodes: list[ast.stmt], system: str) -> Iterator[str]:
    """Yields the names that a stub defines for a system."""
    for node in nodes:
        if isinstance(node, ast.If):
            test = ast.unparse(node.test)
            values = {"sys": type("sys", (), {"platform": system, "version_info": (3, 13)})}
            yield from names_of(node.body if eval(test, values) else node.orelse, system)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign):
            yield ast.unparse(node.target)
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)


def become(system: str) -> None:
    """Removes the names that a system lacks, its missing modules, and Linux's files."""
    for name in ("os", "signal", "socket", "_socket", "select", "resource", "time", "fcntl"):
        module = importlib.import_module(name)
        path = STUBS / name / "__init__.pyi"
        tree = ast.parse((path if path.exists() else STUBS / f"{name}.pyi").read_text())
        lacking = {*names_of(tree.body, "linux")} - {*names_of(tree.body, system)}
        for one in lacking & vars(module).keys():
            delattr(module, one)
    for name in POSIX if system == "win32" else ():
        sys.modules[name] = None
    sys.platform = system
    # What this module found on its import.
    tempfile._O_TMPFILE_WORKS = False
    sys.addaudithook(refuse)
    real = os.stat

    def stat(path, *args, **kwargs):
        refuse("os.stat", (path,))
        return real(path, *args, **kwargs)

    os.stat = stat


def refuse(event: str, args: tuple) -> None:
    """Raises the error of a missing file for those in /proc and /sys."""
    is_path = args and isinstance(args[0], str | bytes | os.PathLike)
    if is_path and event in ("open", "os.listdir", "os.scandir", "os.stat"):
        path = os.fsdecode(args[0])
        if path.startswith(("/proc", "/sys")):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def main() -> None:
    system, *program = sys.argv[1:]
    for name in FEW + (MORE if system == "darwin" else ()):
        importlib.import_module(name)
    if system == "darwin":
        # A package has already chosen one.
        multiprocessing.set_start_method("spawn", force=True)
        ctypes.CDLL = mock.Mock(side_effect=OSError("this is not a library of this system"))
    become(system)
    sys.argv = program
    runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    main()
