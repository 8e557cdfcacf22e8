"""The requirements files and the versions of the lock files."""

from packaging.requirements import Requirement

from tests.helpers.forking import ROOT


def requirements(path):
    for line in path.read_text(encoding="utf-8").splitlines():
        line = line.split(" #")[0].split("\\")[0].strip()
        if line.startswith("-r "):
            yield from requirements(path.parent / line[3:])
        elif line and line[0].isalnum():
            yield Requirement(line)


def pinned(name, python):
    """Returns the versions in a lock file, by package, for a Python such as "3.10"."""
    full = {"python_full_version": f"{python}.13", "sys_platform": "linux"}
    return {
        r.name: str(r.specifier).removeprefix("==")
        for r in requirements(ROOT / "requirements" / f"lock-{name}.txt")
        if not r.marker or r.marker.evaluate({"python_version": python, **full})
    }
