"""Builds the source distribution and the wheel of the last commit, and checks them.

    make release-check                    also lists, as "open", what a release still needs
    make release-check FLAGS=--release    what is open is an error

build/release/dist gets the two files, and build/release/reports the software bill of materials and
the licenses of the locked packages.
"""

import argparse
import email
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.helpers.locks import pinned  # noqa: E402

OUT = ROOT / "build/release"
DIST, REPORTS = OUT / "dist", OUT / "reports"
OK, OPEN, FAILED = "ok", "open", "FAILED"
# In words of the licenses' names, which packages write in many ways.
PERMITTED = re.compile(r"Apache|BSD|CNRI-Python|ISC|MIT|MPL|Mozilla Public|PSF|DFSG approved")
# Programs that check this one, and of which nothing is distributed.
TOOLS = {"codespell": "GPL-2.0-only"}
TYPES = {
    "load": "albert.inference.squad.QuestionAnswerer |",
    "train": "fallback=albert.api.Result]",
    "evaluate": "fallback=albert.api.Result]",
}
CALLS = "import albert\n" + "".join(f"reveal_type(albert.{name})\n" for name in TYPES)


class Finding(NamedTuple):
    """A line of the report."""

    state: str
    text: str


def run(*command: object, **options) -> subprocess.CompletedProcess:
    """Runs a command and keeps its output, of which the errors are a part."""
    words = list(map(str, command))
    return subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no output"])[-1]


def build() -> Iterator[Finding]:
    """Builds twice, in two new clones, and compares the files."""
    commit = run("git", "log", "-1", "--format=%ct %h", cwd=ROOT).stdout.split()
    if run("git", "status", "--porcelain", cwd=ROOT).stdout:
        yield Finding(OPEN, "the working tree has changes, which are not in the files")
    hashes = []
    for _ in range(2):
        shutil.rmtree(DIST, ignore_errors=True)
        with tempfile.TemporaryDirectory() as folder:
            run("git", "clone", "--quiet", ROOT, folder, check=True)
            builder = (sys.executable, "-m", "hatchling", "build", "-d", DIST)
            environment = {**os.environ, "SOURCE_DATE_EPOCH": commit[0]}
            run(*builder, cwd=folder, env=environment, check=True)
        hashes.append(
            {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(DIST.iterdir())}
        )
    same = len(hashes[0]) == 2 and hashes[0] == hashes[1]
    yield Finding(OK if same else FAILED, f"two builds of commit {commit[1]} are the same bytes")
    for name, value in hashes[1].items():
        yield Finding(OK, f"sha256 {value}  {name}")


def files() -> tuple[pathlib.Path, pathlib.Path]:
    (wheel,), (source,) = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    return wheel, source


def contents() -> Iterator[Finding]:
    """Checks which files are in the distributions."""
    wheel, source = files()
    names = zipfile.ZipFile(wheel).namelist()
    foreign = [n for n in names if not re.match(r"albert/|albert_tf-[^/]+\.dist-info/", n)]
    tests = [n for n in names if re.search(r"(^|/)(tests?/|test_|conftest)", n)]
    others = ", ".join(foreign + tests)
    yield Finding(FAILED if others else OK, f"the wheel has only the package {others}".rstrip())
    yield Finding(OK if "albert/py.typed" in names else FAILED, "the wheel has albert/py.typed")
    with tarfile.open(source) as archive:
        parts = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    state = FAILED if "tests" in parts else OK
    yield Finding(state, f"the sdist has {', '.join(sorted(parts))}")


def fields() -> Iterator[Finding]:
    """Checks the metadata, and that all places name the same version."""
    wheel, _ = files()
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        about = email.message_from_bytes(archive.read(name))
    needed = ("Author", "Classifier", "Keywords", "Project-URL", "License-Expression", "Summary")
    missing = [n for n in needed if not (about[n] or about.get(f"{n}-email"))]
    text = f"the metadata lacks {', '.join(missing)}" if missing else "the metadata is complete"
    yield Finding(FAILED if missing else OK, text)
    urls = about.get_all("Project-URL", [])
    # The long description, README.md, has addresses, too.
    site = (ROOT / "tools/mkdocs.yml").read_text(encoding="utf-8")
    state = OPEN if "OWNER/" in about.as_string() + site else OK
    yield Finding(state, f"pyproject.toml names the address of the project: {urls[0].split()[-1]}")
    version = about["Version"]
    yield Finding(OPEN if "dev" in version else OK, f"{version} is the version of a release")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    number, rest = re.search(r"^## \[?(\d[\d.]+)(.*)", changelog, re.M).groups()
    documented = number + ".dev0" * ("not released yet" in rest)
    yield Finding(OK if documented == version else FAILED, f"CHANGELOG.md has {documented}")
    tag = run("git", "describe", "--tags", "--exact-match", cwd=ROOT).stdout.strip()
    yield Finding(OK if tag == f"v{version}" else OPEN, f"the commit has the tag v{version}")


def rules_of_pypi(tools: pathlib.Path) -> Iterator[Finding]:
    result = run(tools, "-m", "twine", "check", "--strict", *files())
    yield Finding(FAILED if result.returncode else OK, "twine check --strict")


def installed(pythons: dict[str, pathlib.Path], tools: pathlib.Path) -> Iterator[Finding]:
    """Installs both files on each Python and tries them; checks the types, writes the SBOM."""
    version = files()[0].name.split("-")[1]
    done = False
    for minor in range(10, 14):
        name = f"3.{minor}"
        if name not in pythons:
            yield Finding(OPEN, f"not tried: there is no Python {name}")
            continue
        folder = OUT / f"try-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        result = run(ROOT / "tests/readme/installed.sh", pythons[name], DIST, folder)
        works = not result.returncode and f"albert {version}\n" in result.stdout
        detail = "" if works else f": {last_line(result.stdout)}"
        yield Finding(OK if works else FAILED, f"wheel and sdist work with Python {name}{detail}")
        if works and not done:
            done = True
            yield from types_of(folder / "env/bin/python")
            yield from bill(folder / "env/bin/python", tools)
        shutil.rmtree(folder)


def types_of(python: pathlib.Path) -> Iterator[Finding]:
    """Checks what mypy knows about the public functions of the installed package."""
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "calls.py").write_text(CALLS, encoding="utf-8")
        mypy = (sys.executable, "-m", "mypy", "--strict", "--no-incremental")
        result = run(*mypy, f"--python-executable={python}", "calls.py", cwd=folder)
    shown = result.stdout.splitlines()
    untyped = [n for (n, kind), s in zip(TYPES.items(), shown, strict=False) if kind not in s]
    if result.returncode or untyped:
        yield Finding(FAILED, f"mypy --strict: {last_line(result.stdout)} {untyped}")
    else:
        yield Finding(OK, f"mypy --strict sees the types of albert.{', albert.'.join(TYPES)}")


def bill(python: pathlib.Path, tools: pathlib.Path) -> Iterator[Finding]:
    """Writes what pip installs with the wheel as a CycloneDX SBOM."""
    path = REPORTS / "sbom.cdx.json"
    command = (tools, "-m", "cyclonedx_py", "environment", "--output-reproducible")
    result = run(*command, "--output-file", path, python)
    detail = "" if not result.returncode else f": {last_line(result.stdout)}"
    yield Finding(FAILED if result.returncode else OK, f"{path.relative_to(ROOT)}{detail}")


def license_of(about: metadata.PackageMetadata) -> str:
    """Returns the license of a package, by the newest of the fields that name it."""
    kinds = about.get_all("Classifier") or []
    classified = [kind.split(" :: ")[-1] for kind in kinds if kind.startswith("License ::")]
    stated = (about.get("License") or "").splitlines()
    return about.get("License-Expression") or "; ".join(classified) or (stated or ["?"])[0]


def licenses() -> Iterator[Finding]:
    """Writes the licenses of the packages in the lock files of the CPU and of the tests."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    rows, wrong, unknown = [], [], []
    needed = pinned("cpu", python)
    for name, version in sorted((pinned("dev", python) | needed).items()):
        try:
            about = metadata.metadata(name)
        except metadata.PackageNotFoundError:
            unknown.append(name)
            continue
        text = license_of(about)
        rows.append(f"{name}\t{version}\t{'run' if name in needed else 'test'}\t{text}")
        if not PERMITTED.search(text) and (name in needed or TOOLS.get(name) != text):
            wrong.append(f"{name} ({text})")
    path = REPORTS / "licenses.tsv"
    path.write_text("\n".join(["package\tversion\tneeded to\tlicense", *rows, ""]), "utf-8")
    state = FAILED if wrong else OPEN if unknown else OK
    detail = ", ".join(wrong) or (f"not installed: {', '.join(unknown)}" if unknown else "")
    yield Finding(state, f"{len(rows)} licenses are permitted {detail}".rstrip())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--release", action="store_true", help="what is open is an error")
    parser.add_argument("--tools", type=pathlib.Path, required=True, help="Python with twine")
    parser.add_argument("--pythons", nargs="*", default=[], help="Pythons to install into")
    args = parser.parse_args()
    REPORTS.mkdir(parents=True, exist_ok=True)
    text = "import sys; print('{}.{}'.format(*sys.version_info))"
    pythons = {run(path, "-c", text).stdout.strip(): path for path in args.pythons}
    checks = (build(), contents(), fields(), rules_of_pypi(args.tools), licenses())
    states = []
    for check in (*checks, installed(pythons, args.tools)):
        for finding in check:
            print(f"{finding.state:<8}{finding.text}", flush=True)
            states.append(finding.state)
    wrong = states.count(FAILED) + args.release * states.count(OPEN)
    print(f"{wrong} wrong, {states.count(OPEN)} open, see RELEASING.md")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
