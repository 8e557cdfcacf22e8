"""The test modules near a file of the product, and a quick run of them after a change.

.venv/bin/python -m tests.near runtime/data/batches.py [FLAGS OF PYTEST]
"""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

from tests.helpers.forking import ROOT


def imported(tree: ast.AST) -> set[str]:
    """Returns the full names of the modules that a source imports, and of what it takes of them."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def near(path: pathlib.Path) -> list[pathlib.Path]:
    """Returns the module that mirrors a source file, and those that import it by name.

    What runs whole programs counts only where nothing else is near: modules directly in `tests/`
    that run programs, those of several workers, and those with tests that are marked as slow.
    """
    path = path.resolve().relative_to(ROOT)
    if path.name.startswith("test_"):
        return [ROOT / path]
    mirror = ROOT / "tests" / path.parent / f"test_{path.stem}.py"
    name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    found, whole = [], []
    for module in sorted((ROOT / "tests").rglob("test_*.py")):
        text = module.read_text(encoding="utf-8")
        # Parsing takes a hundred times as long as this.
        names = imported(ast.parse(text)) if name.rpartition(".")[2] in text else set()
        if module == mirror or name in names:
            runs = "tests.helpers.running" in names and module.parent == ROOT / "tests"
            of_workers = "tests.helpers.running.run_as_workers" in names
            (whole if runs or of_workers or "mark.slow" in text else found).append(module)
    return found or whole


def main() -> int:
    """Runs them; returns the exit code of pytest, or 1 if there are none."""
    path, *flags = sys.argv[1:] or sys.exit("tests.near: error: name a file: FILE=...")
    modules = [str(module.relative_to(ROOT)) for module in near(pathlib.Path(path))]
    if not modules:
        sys.exit(f"tests.near: error: no test module is near {path}")
    print(*modules, sep="\n", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-x", *modules, *flags]
    return subprocess.run(command, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
