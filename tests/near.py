"""The test modules near a file, and a run of them: `python -m tests.near FILE [FLAGS]`."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

from tests.helpers.forking import ROOT

RUNNING = "tests.helpers.running"


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
    that run programs, or give the name of this one, those of several workers, and those with tests
    that are marked as slow.
    """
    path = path.resolve().relative_to(ROOT)
    mirror = ROOT / "tests" / path.parent / f"test_{path.stem}.py"
    name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    programs = {path.stem: path.read_text() for path in (ROOT / "tests/programs").glob("*_*.py")}
    found, whole = [], []
    for module in sorted((ROOT / "tests").rglob("test_*.py")):
        text = module.read_text(encoding="utf-8")
        # What it starts as several workers is a part of it.
        parts = [text, *(code for stem, code in programs.items() if stem in text)]
        # Parsing takes a hundred times as long as this.
        is_likely = module == mirror or any(name.rpartition(".")[2] in part for part in parts)
        names = set().union(*(imported(ast.parse(part)) for part in parts if is_likely))
        if module in (mirror, ROOT / path) or name in names:
            runs = RUNNING in names and module.parent == ROOT / "tests"
            is_whole = runs or f"{RUNNING}.run_as_workers" in names or "mark.slow" in text
            (whole if is_whole else found).append(module)
        elif path.parent == pathlib.Path() and f'"{path.stem}"' in text:
            whole.append(module)
    return found or whole


def main() -> int:
    """Runs them; returns the exit code."""
    path, *flags = sys.argv[1:] or sys.exit("tests.near: error: name a file: FILE=...")
    modules = [str(module.relative_to(ROOT)) for module in near(pathlib.Path(path))]
    if not modules:
        sys.exit(f"tests.near: error: no test module is near {path}")
    print(*modules, sep="\n", flush=True)
    return subprocess.call([sys.executable, "-m", "pytest", "-qx", *modules, *flags], cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
