"""The house rules that a machine can check: imports run downward, names are re-exported only."""

from __future__ import annotations

import ast
import pathlib
import re

import pytest

from tests.conftest import ROOT

TASKS = ("squad", "glue", "pretraining")
MODEL = (
    "modeling",
    "modeling_layers",
    "fine_tuning_utils",
    "lamb_optimizer",
    "optimization",
    "tokenization",
    "model_flags",
)
# What each floor may import of this project; an entry point may import anything.
MAY_IMPORT = {
    "runtime": {"runtime"},
    "model": {"runtime", *MODEL},
    **{task: {"runtime", *MODEL, task} for task in TASKS},
}
OURS = {
    "runtime",
    *MODEL,
    *TASKS,
    "squad_utils",
    "classifier_utils",
    "sample",
    "benchmarks",
    "tests",
}


def imported(path: pathlib.Path) -> set[str]:
    """Top-level names of the modules that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


def floor_of(path: pathlib.Path) -> str | None:
    top = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return "model" if top in MODEL else top if top in MAY_IMPORT else None


def sources() -> list[pathlib.Path]:
    folders = [ROOT / "runtime", *(ROOT / task for task in TASKS)]
    return sorted([*ROOT.glob("*.py"), *(p for f in folders for p in f.rglob("*.py"))])


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_run_downward(path):
    floor = floor_of(path)
    if floor:
        assert imported(path) & OURS <= MAY_IMPORT[floor]
    if floor != "runtime":
        assert not imported(path) & {"horovod", "habana_frameworks"}
    assert not imported(path) & {"torch", "transformers", "six"}


def test_estimators_come_from_one_module():
    """`tf.estimator` is there up to TensorFlow 2.15 only."""
    pattern = re.compile(r"\btf2?\.estimator\b|tensorflow_estimator")
    assert [p.name for p in sources() if pattern.search(p.read_text())] == ["estimators.py"]


@pytest.mark.parametrize(
    "path", [p for p in sorted(ROOT.glob("*.py")) if "__main__" in p.read_text()], ids=str
)
def test_programs_import_runtime_before_what_imports_tensorflow(path):
    statements = ast.parse(path.read_text(encoding="utf-8")).body
    names = [
        node.names[0].name if isinstance(node, ast.Import) else node.module
        for node in statements
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert "runtime" in names
    before = {name.split(".")[0] for name in names[: names.index("runtime")]}
    assert not before & {"tensorflow", *OURS}


@pytest.mark.parametrize("name", ["squad_utils", "classifier_utils", "lamb_optimizer"])
def test_reference_modules_only_name_things(name):
    tree = ast.parse((ROOT / f"{name}.py").read_text(encoding="utf-8"))
    kinds = {type(node) for node in tree.body[1:]}
    assert kinds <= {ast.ImportFrom, ast.Assign}


def test_modules_stay_readable():
    """Past some 500 lines a module is two."""
    long = {p.name: n for p in sources() if (n := len(p.read_text().splitlines())) > 550}
    assert not long
