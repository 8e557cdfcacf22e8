"""Finds the test modules of a file and runs them: `python -m tools.near FILE [FLAGS]`."""

import ast
import pathlib
import subprocess
import sys

from tests.helpers.forking import ROOT

RUNNING = "tests.helpers.running"


def imported(text: str) -> set[str]:
    """Returns the full names of the modules that a source imports, and of the objects it takes."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def near(path: pathlib.Path) -> list[pathlib.Path]:
    """Returns the test module that mirrors a source file, and those that import it by name.

    If none does, returns the test modules of the product modules that import it. Test modules that
    run whole programs count only if no others are found: those directly in `tests/` that run
    programs or name this one, and those with several workers.
    """
    path = path.resolve()
    by_users = (test for user in users(path) for test in near_directly(user))
    return near_directly(path) or sorted(set(by_users))


def near_directly(path: pathlib.Path) -> list[pathlib.Path]:
    """Returns the test modules that import a source file themselves, or mirror it."""
    path = path.relative_to(ROOT)
    folder = pathlib.Path(*path.parent.parts[path.parts[0] == "albert" :])
    mirror, name = ROOT / "tests" / folder / f"test_{path.stem}.py", name_of(path)
    is_program = path.parent == pathlib.Path() and "__main__" in (ROOT / path).read_text()
    found, whole = [], []
    for module in sorted((ROOT / "tests").rglob("test_*.py")):
        text = text_of(module)
        names = imported(text) if module == mirror or path.stem in text else set()
        if module in (mirror, ROOT / path) or name in names:
            runs = RUNNING in names and module.parent == ROOT / "tests"
            is_whole = runs or f"{RUNNING}.run_as_workers" in names
            (whole if is_whole else found).append(module)
        elif is_program and f'"{path.stem}"' in text:
            whole.append(module)
    return found or whole


def text_of(module: pathlib.Path) -> str:
    """Returns the source of a test module, with that of the programs that its workers run."""
    text = module.read_text(encoding="utf-8")
    for program in sorted((ROOT / "tests/programs").glob("*_*.py"), reverse=True):
        if program.stem in text:
            text += "\n" + program.read_text(encoding="utf-8")
    return text


def users(path: pathlib.Path) -> list[pathlib.Path]:
    """Returns the modules of the product that import a source file."""
    name = name_of(path.relative_to(ROOT))
    texts = {ROOT / file: (ROOT / file).read_text(encoding="utf-8") for file in product()}
    return [m for m, text in texts.items() if path.stem in text and name in imported(text)]


def product() -> list[str]:
    """Returns the paths of all committed modules except tests and tools."""
    return tracked("*.py", ":!tests", ":!tools")


def tracked(*patterns: str) -> list[str]:
    """Returns the paths of all committed files, or of those that match patterns of git."""
    command = ["git", "ls-files", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


def name_of(path: pathlib.Path) -> str:
    """Returns the name of the module in a file, given its path from the root."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def main() -> int:
    path, *flags = sys.argv[1:] or sys.exit("tools.near: error: name a file: FILE=...")
    modules = [str(module.relative_to(ROOT)) for module in near(pathlib.Path(path))]
    if not modules:
        sys.exit(f"tools.near: error: no test module is near {path}")
    print(*modules, sep="\n", flush=True)
    return subprocess.call([sys.executable, "-m", "pytest", "-qx", *modules, *flags], cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
