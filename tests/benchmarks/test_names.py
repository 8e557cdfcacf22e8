"""The names that the benchmarks use exist: this project's, and their flags'.

Running them takes minutes: `test_tiny_runs.py` does.
"""

from __future__ import annotations

import ast
import importlib
import re
import types
from collections.abc import Iterator

import pytest

from tests.helpers.forking import ROOT


def is_ours(module: str) -> bool:
    top = ROOT / module.split(".")[0]
    return top.is_dir() or top.with_suffix(".py").exists()


def imported(tree: ast.AST) -> Iterator[tuple[str, object]]:
    """What the file imports of this project, in functions too: its name there, and what it is."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name, alias in ((a.name, a.asname) for a in node.names if is_ours(a.name)):
                module, top = (importlib.import_module(n) for n in (name, name.split(".")[0]))
                yield (alias, module) if alias else (top.__name__, top)
        elif isinstance(node, ast.ImportFrom) and is_ours(node.module):
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
                yield alias.asname or alias.name, getattr(module, alias.name)


def missing(source: str) -> list[str]:
    """What the source names of imported modules and classes, and of `flags`, and is not there."""
    tree = ast.parse(source)
    known = {k: v for k, v in imported(tree) if isinstance(v, types.ModuleType | type)}
    flags = re.findall(r"add_argument\(\s*\"--(\w+)", source)
    known["flags"] = types.SimpleNamespace(**dict.fromkeys(flags))
    return [
        f"{node.value.id}.{node.attr}, line {node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in known
        and not hasattr(known[node.value.id], node.attr)
    ]


def test_names_exist():
    found = {p.name: missing(p.read_text("utf-8")) for p in (ROOT / "benchmarks").glob("*.py")}
    assert len(found) > 10 and {name: names for name, names in found.items() if names} == {}


def test_a_wrong_name_is_found():
    wrong = "import modeling\ndef f():\n  return modeling.AlbertModell"
    assert missing(wrong) == ["modeling.AlbertModell, line 3"]
    with_flags = 'parser.add_argument("--steps")\nprint(flags.steps, flags.step)'
    assert missing(with_flags) == ["flags.step, line 2"]
    with pytest.raises(ImportError):
        missing("def f():\n  from squad.head import make_v3_head")
